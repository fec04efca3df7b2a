//! Live events.

use crate::dashboard::api::Call;
use crate::dashboard::html::{field, heads};
use crate::dashboard::paths::with_query;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use duetime_core::engine::events::What;
use maud::{Markup, html};

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let (title, content) = (visit.say(Text::Events).to_owned(), render(&visit));
    visit.answer(Ok((title, content)))
}

fn render(visit: &Visit) -> Markup {
    let asked = |name| visit.asked(name).unwrap_or_default();
    let recent = || visit.asked_all(&["queue", "what"]).chain([("recent", "true")]);
    let live = with_query("/live", recent());
    let plain = with_query("/live", recent().chain([("as", "text")]));
    html! {
        form.search method="get" action="/events" {
            (field(visit, "queue", Text::Queue, asked("queue"), "orders.*"))
            label {
                span { (visit.say(Text::What)) }
                select name="what" {
                    option value="" { (visit.say(Text::Any)) }
                    @for what in What::ALL { option value=(what.word()) selected[asked("what") == what.word()] { (what.word()) } }
                }
            }
            p { button type="submit" { (visit.say(Text::Filter)) } }
        }
        noscript { p { a href=(plain) { (visit.say(Text::EventsPlain)) } } }
        div.scroll.rows tabindex="0" {
            table #events data-stream=(live) {
                thead { tr { (heads(visit, &[Text::Time, Text::What, Text::Queue, Text::Kind, Text::Id, Text::Attempt])) } }
                tbody {}
            }
        }
        p.empty { (visit.say(Text::EventsHint)) }
    }
}

/// The API's stream of events, with the rights of the session.
pub(in crate::dashboard) async fn stream(visit: Visit) -> Response {
    let call = Call::new(Method::GET, with_query("/v1/events", visit.asked_all(&["queue", "what", "every", "recent"])));
    let mut response = match visit.api.send(call).await {
        Ok(response) => response,
        Err(problem) => return visit.answer(Err(problem)),
    };
    if visit.asked("as") == Some("text") && response.status().is_success() {
        // A browser shows text as it comes.
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    response
}
