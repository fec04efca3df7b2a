//! Dead letters.

use super::jobs;
use crate::dashboard::api::Problem;
use crate::dashboard::html::field;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use maud::{Markup, html};

pub(super) const PATH: &str = "/failed";

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let asked = |name| visit.asked(name).unwrap_or_default();
    let content = html! {
        form.search method="get" action=(PATH) role="search" {
            (field(visit, "queue", Text::Queue, asked("queue"), ""))
            (field(visit, "kind", Text::Kind, asked("kind"), ""))
            (field(visit, "tag", Text::Tag, asked("tag"), ""))
            p { button type="submit" { (visit.say(Text::Search)) } a href=(PATH) { (visit.say(Text::Clear)) } }
        }
        (jobs::list(visit, Text::NoFailed).await?)
    };
    Ok((visit.say(Text::Failed).to_owned(), content))
}
