//! The search in the header: an id, else a key in any queue, then a tag, then a kind.

use crate::dashboard::api::Problem;
use crate::dashboard::paths::{page_path, see_other, with_query};
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use duetime_core::JobId;
use duetime_core::api::Page;

/// Pages that a search for a key reads; each asks up to 250 queues.
const PAGES_MAX: usize = 40;

/// Goes to what the text names: a job, a queue, or the jobs with this key, tag or kind.
pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let text = visit.asked("q").unwrap_or_default().trim().to_owned();
    match found(&visit, &text).await {
        Ok(path) => see_other(&path),
        Err(problem) => {
            let title = visit.say(Text::Search).to_owned();
            let mut visit = visit;
            visit.problem = Some(problem);
            visit.page(&title, &maud::html! {})
        }
    }
}

async fn found(visit: &Visit, text: &str) -> Result<String, Problem> {
    if text.is_empty() {
        return Ok("/jobs".to_owned());
    }
    if let Ok(id) = text.parse::<JobId>()
        && is_there(visit, &format!("/v1/jobs/{id}")).await?
    {
        return Ok(format!("/jobs/{id}"));
    }
    let jobs_with = |what| with_query("/jobs", std::iter::once((what, text)));
    for what in ["key", "tag", "kind"] {
        match first(visit, what, text).await? {
            Hits::One(id) => return Ok(format!("/jobs/{id}")),
            Hits::Many => return Ok(jobs_with(what)),
            Hits::None => {}
        }
    }
    // The list says that there is none.
    Ok(if duetime_core::model::name::check_queue(text).is_ok() && has_jobs(visit, text).await? {
        page_path("/queues", text)
    } else {
        jobs_with("key")
    })
}

enum Hits {
    None,
    One(JobId),
    Many,
}

/// The jobs with this key, tag or kind.
async fn first(visit: &Visit, what: &str, text: &str) -> Result<Hits, Problem> {
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let asked =
            [(what, text), ("limit", "2")].into_iter().chain(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let answer = match visit.get(with_query("/v1/jobs", asked)).await {
            Ok(answer) => answer,
            // No key, tag or kind, or of queues that the reader may not see.
            Err(problem) if problem.status < 500 => return Ok(Hits::None),
            Err(problem) => return Err(problem),
        };
        let page: Page<'_> = answer.read();
        match (page.jobs.as_slice(), page.next_cursor) {
            ([job], _) if what == "key" => return Ok(Hits::One(job.id)),
            ([], Some(next)) => cursor = Some(next.into_owned()),
            ([], None) => return Ok(Hits::None),
            _ => return Ok(Hits::Many),
        }
    }
    Ok(Hits::None)
}

async fn is_there(visit: &Visit, path: &str) -> Result<bool, Problem> {
    match visit.get(path).await {
        Ok(_) => Ok(true),
        Err(problem) if problem.status < 500 => Ok(false),
        Err(problem) => Err(problem),
    }
}

/// Whether a queue was ever used.
async fn has_jobs(visit: &Visit, queue: &str) -> Result<bool, Problem> {
    let path = format!("/v1/queues/{}", duetime_core::api::path_segment(queue));
    let Some(answer) = visit.get_allowed(path).await? else { return Ok(false) };
    Ok(answer.read::<duetime_core::api::Queue>().totals.pushed > 0)
}
