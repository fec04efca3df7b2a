//! Dead letters.

use super::jobs;
use crate::access::Scope;
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::figures::number;
use crate::dashboard::form::Form;
use crate::dashboard::html::{field, form_token, instant, near, queue, table};
use crate::dashboard::paths::{FAILED, went, with_query};
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::shown;
use crate::dashboard::visit::Visit;
use axum::http::Method;
use axum::response::Response;
use duetime_core::JobId;
use duetime_core::api::{FailureGroup, Failures};
use maud::{Markup, html};

pub(in crate::dashboard) async fn page(mut visit: Visit) -> Response {
    let listed = list(&visit).await;
    // The search stays, to be mended.
    let content = html! { (search(&visit)) @if let Ok(listed) = &listed { (listed) } };
    visit.problem = visit.problem.or(listed.err());
    let title = visit.say(Text::Failed);
    visit.page(title, &content)
}

pub(in crate::dashboard) async fn act(visit: Visit, form: Form) -> Response {
    match form.get("do") {
        Some(action @ ("retry_group" | "delete_group")) => {
            let action = action.to_owned();
            if action == "delete_group" && form.get("confirmed").is_none() {
                let (title, content) = confirmation(&visit, &form);
                return visit.page(title, &content);
            }
            let made = act_on_group(&visit, &form, &action).await;
            visit.answer_action(made, form, page).await
        }
        _ => jobs::act_on(visit, form, page).await,
    }
}

/// A button that does something with all jobs of a group: of this queue and kind, with this message.
pub(super) fn group_button(
    visit: &Visit,
    action: &str,
    (queue, kind, message): (&str, &str, &str),
    text: &str,
) -> Markup {
    html! {
        form method="post" action=(FAILED) {
            (form_token(visit))
            @for (name, value) in [("queue", queue), ("kind", kind), ("message", message)] {
                input type="hidden" name=(name) value=(value);
            }
            button type="submit" class=[(action == "delete_group").then_some("danger")] name="do" value=(action) { (text) }
        }
    }
}

/// Says what would be deleted, and waits for a confirmation.
fn confirmation(visit: &Visit, form: &Form) -> (&'static str, Markup) {
    let field = |name| form.all(name).next().unwrap_or_default();
    let fields = [("queue", Text::Queue), ("kind", Text::Kind), ("message", Text::Message)];
    let content = html! {
        p.warning { (visit.say(Text::DeletesRecords)) }
        dl.facts { @for (name, text) in fields { div { dt { (visit.say(text)) } dd { (shown(field(name))) } } } }
        form.confirm method="post" action=(FAILED) data-keep {
            (form_token(visit))
            input type="hidden" name="confirmed" value="yes";
            @for (name, _) in fields { input type="hidden" name=(name) value=(field(name)); }
            button #confirm.danger type="submit" name="do" value="delete_group" { (visit.say(Text::Delete)) }
            " " a href=(FAILED) { (visit.say(Text::Back)) }
        }
    };
    (visit.say(Text::Delete), content)
}

/// Retries or deletes the jobs of a group, as they are grouped now.
async fn act_on_group(visit: &Visit, form: &Form, action: &str) -> Result<Response, Problem> {
    let field = |name| form.all(name).next().unwrap_or_default();
    let failures: Failures =
        visit.get(with_query("/v1/failures", [("queue", field("queue"))].into_iter())).await?.read();
    let is_it = |group: &&FailureGroup| *group.kind == *field("kind") && group.message == field("message");
    let groups = failures.groups.unwrap_or_default();
    let ids = groups.iter().find(is_it).map_or(&[][..], |group| &group.ids);
    if ids.is_empty() {
        return Ok(went(FAILED, &[]));
    }
    let call = |id: &JobId| match action {
        "retry_group" => (Call::post(format!("/v1/jobs/{id}/retry")), "retried"),
        _ => (Call::new(Method::DELETE, format!("/v1/jobs/{id}")), "deleted"),
    };
    visit.act(ids.iter().map(call).collect(), FAILED).await
}

fn search(visit: &Visit) -> Markup {
    let asked = |name| visit.asked(name).unwrap_or_default();
    html! {
        form.search method="get" action=(FAILED) role="search" {
            (field(visit, "queue", Text::Queue, asked("queue"), ""))
            (field(visit, "kind", Text::Kind, asked("kind"), ""))
            (field(visit, "tag", Text::Tag, asked("tag"), ""))
            p { button type="submit" { (visit.say(Text::Search)) } a href=(FAILED) { (visit.say(Text::Clear)) } }
        }
    }
}

async fn list(visit: &Visit) -> Result<Markup, Problem> {
    Ok(html! {
        // Groups are not counted by tag.
        @if visit.asked("tag").is_none() { (groups(visit).await?) }
        h2 { (visit.say(Text::FailedJobs)) }
        (jobs::list(visit, Text::NoFailed).await?)
    })
}

/// The latest ones by message.
async fn groups(visit: &Visit) -> Result<Markup, Problem> {
    let Some(answer) = visit.get_allowed(with_query("/v1/failures", visit.asked_all(&["queue"]))).await? else {
        return Ok(html! {});
    };
    let failures: Failures = answer.read();
    let heading = html! { h2 { (visit.say(Text::ByMessage)) } };
    let (Some(groups), Some(as_of)) = (&failures.groups, failures.as_of) else {
        return Ok(html! { (heading) p.empty { (visit.say(Text::BeingCounted)) } });
    };
    if groups.is_empty() {
        return Ok(html! {});
    }
    let heads = [Text::Message, Text::Queue, Text::Kind, Text::Jobs, Text::InLastHour, Text::FailedAt, Text::Actions];
    let rows = html! {
        @for group in groups.iter().filter(|group| visit.asked("kind").is_none_or(|kind| *kind == *group.kind)) {
            @let found = [("queue", &*group.queue), ("kind", &*group.kind)];
            tr {
                th.message scope="row" { a href={ "/jobs/" (group.job) } { (shown(&group.message)) } }
                td { (queue(&group.queue)) }
                td.extra { (shown(&group.kind)) }
                td.number.stock data-label=(visit.say(Text::Jobs)) { (number(group.jobs)) }
                td.number.nil[group.last_hour == 0] data-label=(visit.say(Text::InLastHour)) { @if group.last_hour > 0 { strong.bad { "+" (number(group.last_hour)) } } @else { "–" } }
                td { (near(visit, group.latest.0)) }
                td {
                    div.row {
                        @if visit.may(Scope::Change, &group.queue) {
                            @let named = (&*group.queue, &*group.kind, &*group.message);
                            @let count = number(group.jobs);
                            (group_button(visit, "retry_group", named, &visit.language.fill(Text::RetryCount, &[&count])))
                            (group_button(visit, "delete_group", named, &format!("{}…", visit.say(Text::Delete))))
                        }
                        a href=(with_query(FAILED, found.into_iter())) { (visit.say(Text::ShowThem)) }
                    }
                }
            }
        }
    };
    Ok(html! {
        (heading)
        (table(visit, &heads, &rows))
        p.empty { (visit.language.fill(Text::OfLatestFailed, &[&number(failures.looked_at)])) " " (instant(visit, as_of.0)) }
    })
}
