//! Locks.

use super::queue::invalid;
use crate::access::Scope;
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::form::Form;
use crate::dashboard::html::{Action, allowed, empty, instant, next_page, shown};
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Visit, with_query};
use axum::http::Method;
use axum::response::Response;
use duetime_core::api::path_segment;
use duetime_core::engine::LockList;
use duetime_core::ports::Holding;
use maud::{Markup, html};

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let answer = visit.get(with_query("/v1/locks", visit.asked_all(&["cursor"]))).await?;
    let LockList { locks, next_cursor } = answer.read();
    let heads = [Text::Name, Text::Owner, Text::Fence, Text::Ends];
    let content = html! {
        @if locks.is_empty() { (empty(visit, Text::NoLocks)) } @else {
            div.scroll tabindex="0" {
                table {
                    thead { tr { @for head in heads { th scope="col" { (visit.say(head)) } } th { span.unseen { (visit.say(Text::Actions)) } } } }
                    tbody {
                        @for holding in &locks {
                            tr {
                                th scope="row" { (shown(&holding.name)) }
                                td { (shown(&holding.owner)) }
                                td.number { (holding.grant.fence) }
                                td { (instant(visit, holding.grant.expires_at)) }
                                td { (allowed(visit, Scope::Lock, &holding.name, || release(visit, holding))) }
                            }
                        }
                    }
                }
            }
        }
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
    action.show(visit, "/locks", &[("name", name), ("owner", owner), ("fence", &fence)])
}

fn call(name: &str, owner: &str, fence: &str) -> Call {
    let path = format!("/v1/locks/{}", path_segment(name));
    Call::new(Method::DELETE, with_query(&path, [("owner", owner), ("fence", fence)].into_iter()))
}

pub(in crate::dashboard) async fn act(mut visit: Visit, form: Form) -> Response {
    // Names are taken as they are, spaces included.
    let [name, owner, fence] = ["name", "owner", "fence"].map(|field| form.all(field).next().unwrap_or_default());
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
