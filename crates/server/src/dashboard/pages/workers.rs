//! Who works.

use crate::dashboard::html::empty;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use axum::response::Response;

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let content = empty(&visit, Text::NoWorkers);
    let title = visit.say(Text::Workers).to_owned();
    visit.answer(Ok((title, content)))
}
