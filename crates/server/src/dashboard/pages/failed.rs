//! Dead letters.

use super::jobs;
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Visit, see_other, with_query};
use axum::response::Response;

/// Shows them as a search of jobs does.
pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let _ = (jobs::FILTERS, Text::Failed);
    see_other(&with_query("/jobs", visit.asked_all(&["queue", "kind"]).chain([("state", "failed")])))
}
