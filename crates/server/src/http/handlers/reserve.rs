//! Reserve and take.
//!
//! A reserve that waits ends with its connection: the HTTP library drops the handler once the client has closed it, and
//! the engine hands nothing to a caller that is gone. A client that shuts down its sending half counts as gone.

use crate::access::{Caller, Scope};
use crate::dashboard::Language;
use crate::http::app::App;
use crate::http::body::One;
use crate::http::call::Call;
use crate::http::limits::{ENTRY_ANSWER_BYTES, PAGE_ANSWER_BYTES};
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::problem::Problem;
use crate::http::reply::{self, Answered};
use crate::http::segment::{Name, Segment};
use crate::http::{Peer, redaction, repeat};
use axum::Extension;
use duetime_core::api::schema::{ReserveOfQueue, TakeOfQueue};
use duetime_core::api::{self, Reservation, Reserve, Take, Taken};
use duetime_core::engine::unnamed;
use duetime_core::engine::{self, ReserveRequest, Source, TakeRequest, Unclaimed};
use duetime_core::ports::Lease;
use duetime_core::{Error, JobId};
use std::net::SocketAddr;
use std::sync::Arc;

/// Reserve due jobs of a queue.
///
/// Leases the most urgent due jobs, or the named ones. If no job is due, the request waits for up to `wait`. The worker
/// then completes, fails, releases or extends each lease.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/reserve", operation_id = "reserve", tag = "work",
    request_body = Option<ReserveOfQueue>,
    responses((status = 200, description = "The leases; none if no job came due.", body = Reservation<'_>)),
    extensions(("x-codes" = json!(["backlog"]))),
)]
pub(crate) async fn reserve(
    Call(app, caller): Call,
    Extension(Peer(peer)): Extension<Peer>,
    language: Language,
    Segment(Name(queue)): Segment<Name>,
    body: One,
) -> Answered {
    let request = body.object::<Reserve>()?.into_request(Some(queue))?;
    let _parsed = body.parsed();
    answer(&app, &caller, (peer, language), request).await
}

/// Reserve due jobs of several queues, or named ones.
///
/// The order of `queues` is strict: jobs of the second queue are handed out only if the first has none.
#[utoipa::path(
    post, path = "/v1/reserve", operation_id = "reserve_anywhere", tag = "work",
    request_body(content = Reserve, example = json!({"queues": ["orders", "mail"], "limit": 10, "wait": "5s"})),
    responses((status = 200, description = "The leases; none if no job came due.", body = Reservation<'_>)),
    extensions(("x-codes" = json!(["backlog"]))),
)]
pub(crate) async fn reserve_anywhere(
    Call(app, caller): Call,
    Extension(Peer(peer)): Extension<Peer>,
    language: Language,
    body: One,
) -> Answered {
    let request = body.object::<Reserve>()?.into_request(None)?;
    let _parsed = body.parsed();
    answer(&app, &caller, (peer, language), request).await
}

async fn answer(
    app: &App,
    caller: &Caller,
    (peer, language): (SocketAddr, Language),
    mut request: ReserveRequest,
) -> Answered {
    request.request_id = repeat::of_reserve(caller, &request);
    request.worker.get_or_insert_with(|| unnamed(peer.ip().to_canonical()));
    let unknown = check(app, caller, &mut request.from).await?;
    let queues = match &request.from {
        Source::Queues(queues) => queues.clone(),
        Source::Jobs(_) => Vec::new(),
    };
    // The leases of a request that may be repeated are not given back if it is dropped, so it is left to end.
    let is_left = request.request_id.is_some();
    let reserved = tokio::select! {
        biased;
        // Boxed, since this future waits for long: the futures around it hold it twice and stay small.
        reserved = Box::pin(app.engine.reserve_unclaimed(request)) => Some(reserved?),
        () = app.stopping.cancelled() => None,
        problem = caller.until_lost(|| check_queues(caller, &queues)), if !is_left => return Err(problem),
    };
    if let Err(problem) = check_given(caller, &queues, reserved.as_ref()) {
        if let Some(reserved) = reserved {
            reserved.give_back().await;
        }
        return Err(problem);
    }
    let room = match Room::of_made(app, reserved.as_ref().map_or(0, |reserved| answer_bytes(reserved.leases()))).await {
        Ok(room) => room,
        Err(problem) => {
            // A repeat of the request still gets them.
            drop(reserved);
            return Err(problem);
        }
    };
    let mut reservation = reserved.map(Unclaimed::claim).unwrap_or_default();
    reservation.leases.iter_mut().for_each(|lease| redaction::job(caller, &mut lease.job));
    let refused = refusals(&mut reservation, unknown);
    Ok(room.hold_done(reply::told(language, Reservation::new(&reservation, refused))))
}

/// About how many bytes the answer with these leases has.
fn answer_bytes(leases: &[Lease]) -> usize {
    leases.iter().map(|lease| ENTRY_ANSWER_BYTES + shown_bytes(lease.job.held_bytes())).sum()
}

/// Bytes of a payload in base64.
fn shown_bytes(bytes: usize) -> usize {
    bytes / 3 * 4
}

/// Take due jobs, at most once.
///
/// Taken jobs have succeeded; they are not settled. The answer is sent once that is recorded. After a 503 or 507, nothing
/// was handed out. After an error or a lost answer, repeat the request with the same `request_id`: if the jobs were taken,
/// the answer has them, unless a server with a file was restarted meanwhile.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/take", operation_id = "take", tag = "work",
    request_body = Option<TakeOfQueue>,
    responses((status = 200, description = "The jobs.", body = Taken<'_>)),
    extensions(("x-codes" = json!(["backlog"]))),
)]
pub(crate) async fn take(
    Call(app, caller): Call,
    language: Language,
    Segment(Name(queue)): Segment<Name>,
    body: One,
) -> Answered {
    let request = body.object::<Take>()?.into_request(Some(queue))?;
    let _parsed = body.parsed();
    take_from(&app, &caller, language, request).await
}

/// Take due jobs of several queues, or named ones, at most once.
///
/// The order of `queues` is strict: jobs of the second queue are handed out only if the first has too few. Otherwise this
/// works as a take from one queue.
#[utoipa::path(
    post, path = "/v1/take", operation_id = "take_anywhere", tag = "work",
    request_body(content = Take, example = json!({"queues": ["orders", "mail"], "limit": 10})),
    responses((status = 200, description = "The jobs.", body = Taken<'_>)),
    extensions(("x-codes" = json!(["backlog"]))),
)]
pub(crate) async fn take_anywhere(Call(app, caller): Call, language: Language, body: One) -> Answered {
    let request = body.object::<Take>()?.into_request(None)?;
    let _parsed = body.parsed();
    take_from(&app, &caller, language, request).await
}

async fn take_from(app: &App, caller: &Caller, language: Language, mut request: TakeRequest) -> Answered {
    request.request_id = repeat::of_take(caller, &request);
    let unknown = check(app, caller, &mut request.from).await?;
    // Before anything is taken: then it cannot be refused any more.
    let each = ENTRY_ANSWER_BYTES + shown_bytes(app.engine.payload_bytes_max());
    let room = Room::new(app, request.limit.saturating_mul(each).min(PAGE_ANSWER_BYTES)).await?;
    let mut reservation = app.engine.take(request).await?;
    reservation.leases.iter_mut().for_each(|lease| redaction::job(caller, &mut lease.job));
    let refused = refusals(&mut reservation, unknown);
    Ok(room.hold_done(reply::told(language, Taken::new(&reservation, refused, app.engine.now()))))
}

/// Checks what is about to be given, by the rights of this moment.
fn check_given(caller: &Caller, asked: &[Arc<str>], given: Option<&Unclaimed>) -> Result<(), Problem> {
    access::check_any(caller, Scope::Work)?;
    check_queues(caller, asked)?;
    given.map_or(Ok(()), |given| check_queues(caller, given.leases().iter().map(|lease| &lease.job.queue)))
}

fn check_queues<'a>(caller: &Caller, queues: impl IntoIterator<Item = &'a Arc<str>>) -> Result<(), Problem> {
    queues.into_iter().try_for_each(|queue| access::check(caller, Scope::Work, queue))
}

/// Checks that the caller may work on these queues. Jobs reserved by id may be of any queue. Those of queues that the
/// caller has no right to are removed from the request and returned, to be answered like jobs that do not exist.
async fn check(app: &App, caller: &Caller, from: &mut Source) -> Result<Vec<JobId>, Problem> {
    match from {
        Source::Queues(queues) => {
            check_queues(caller, &**queues)?;
            Ok(Vec::new())
        }
        Source::Jobs(jobs) => {
            let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
            let mut allowed = access::allowed(app, caller, Scope::Work, &ids).await?.into_iter();
            let mut unknown = Vec::new();
            jobs.retain(|job| {
                let is_allowed = allowed.next().expect("an answer for each");
                if !is_allowed {
                    unknown.push(job.id);
                }
                is_allowed
            });
            Ok(unknown)
        }
    }
}

fn refusals(reservation: &mut engine::Reservation, unknown: Vec<JobId>) -> Vec<api::Problem> {
    let problem = |(id, error): (JobId, Error)| api::Problem { id: Some(id), ..Problem::from(error).into() };
    let unknown = unknown.into_iter().map(|id| (id, Error::NotFound(id)));
    std::mem::take(&mut reservation.refused).into_iter().chain(unknown).map(problem).collect()
}
