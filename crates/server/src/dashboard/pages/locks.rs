//! Locks.

use crate::access::Scope;
use crate::dashboard::action::Action;
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::fields::invalid;
use crate::dashboard::form::Form;
use crate::dashboard::html::{allowed, empty, instant, next_page, table};
use crate::dashboard::paths::with_query;
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::shown;
use crate::dashboard::visit::Visit;
use axum::http::Method;
use axum::response::Response;
use duetime_core::api::path_segment;
use duetime_core::engine::LockList;
use duetime_core::model::name::OF_ENGINE;
use duetime_core::ports::Holding;
use maud::{Markup, html};
use url::form_urlencoded;

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let answer = visit.get(with_query("/v1/locks", visit.asked_all(&["cursor"]))).await?;
    let LockList { locks, next_cursor } = answer.read();
    let heads = [Text::Name, Text::Owner, Text::Fence, Text::Ends, Text::WaitsForIt, Text::Actions];
    let rows = html! {
        @for holding in &locks {
            tr {
                th scope="row" { (shown(&holding.name)) }
                td.message { (shown(&holding.owner)) }
                td.number data-label=(visit.say(Text::Fence)) { (holding.grant.fence) }
                td data-label=(visit.say(Text::Ends)) { (instant(visit, holding.grant.expires_at.0)) }
                td.number.nil[holding.waiting == 0] data-label=(visit.say(Text::WaitsForIt)) { (holding.waiting) }
                td {
                    // The API releases no lock of the engine.
                    @if !holding.name.starts_with(OF_ENGINE) { (allowed(visit, Scope::Lock, &holding.name, || release(visit, holding))) }
                }
            }
        }
    };
    let content = html! {
        @if locks.is_empty() { (empty(visit, Text::NoLocks)) } @else { (table(visit, &heads, &rows)) }
        (next_page(visit, next_cursor.as_deref()))
    };
    Ok((visit.say(Text::Locks).to_owned(), content))
}

fn release(visit: &Visit, holding: &Holding) -> Markup {
    let fence = holding.grant.fence.to_string();
    let (name, owner) = (&*holding.name, &*holding.owner);
    let action = Action {
        warning: Some(Text::ReleaseWarning),
        call: Some(call(name, owner, &fence)),
        ..Action::new("release", Text::Release)
    };
    // Browsers change line ends in fields, but nothing in this encoding.
    let lock = with_query("", [("name", name), ("owner", owner), ("fence", &fence)].into_iter());
    action.show(visit, "/locks", &[("lock", &lock)])
}

fn call(name: &str, owner: &str, fence: &str) -> Call {
    let path = format!("/v1/locks/{}", path_segment(name));
    Call::new(Method::DELETE, with_query(&path, [("owner", owner), ("fence", fence)].into_iter()))
}

pub(in crate::dashboard) async fn act(mut visit: Visit, form: Form) -> Response {
    let lock = form.get("lock").unwrap_or_default().trim_start_matches('?');
    let lock: Vec<_> = form_urlencoded::parse(lock.as_bytes()).into_owned().collect();
    let part = |name| lock.iter().find(|(known, _)| known == name).map_or("", |(_, value)| &**value);
    let [name, owner, fence] = ["name", "owner", "fence"].map(part);
    let made = match form.get("do") {
        Some("release") => visit.act(vec![(call(name, owner, fence), "released")], "/locks").await,
        other => Err(invalid("do", &format!("an action of this page, got {other:?}"))),
    };
    match made {
        Ok(response) => response,
        Err(problem) => {
            visit.problem = Some(problem);
            page(visit).await
        }
    }
}
