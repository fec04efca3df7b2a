//! The clock of a server for tests (`duetime serve --test`): shows it, and moves it.

use crate::http::app::App;
use crate::http::body::One;
use crate::http::call::Call;
use crate::http::reply::{self, Answered};
use duetime_core::api::{Advance, Now, Span, Timestamp};
use duetime_core::limits::DAY_MS;
use duetime_core::{Error, MovableClock};

/// How far ahead of the machine's clock it can be: 100 years, so that every instant can be written.
const AHEAD_MS_MAX: u64 = 36_525 * DAY_MS;

/// Show the clock.
#[utoipa::path(
    get, path = "/v1/clock", operation_id = "get_clock", tag = "server",
    responses((status = 200, description = "What the clock reads.", body = Now)),
)]
pub(crate) async fn get(Call(app, _): Call) -> Answered {
    Ok(reply::ok(&Now { now: Timestamp(app.engine.now()) }))
}

/// Move the clock forward.
///
/// Everything happens on the way that happens by time alone, each at its instant: jobs become due, schedules push, leases and
/// pauses end. The answer comes once what became due is ready to be reserved.
#[utoipa::path(
    post, path = "/v1/clock/advance", operation_id = "advance_clock", tag = "server",
    request_body = Advance,
    responses((status = 200, description = "What the clock reads then.", body = Now)),
)]
pub(crate) async fn advance(Call(app, _): Call, body: One) -> Answered {
    let Advance { by } = body.object()?;
    let clock = clock(&app);
    if clock.ahead_ms().saturating_add(by.0) > AHEAD_MS_MAX {
        let ahead = Span(clock.ahead_ms());
        let expected =
            format!("a duration that keeps the clock within 100 years of the machine's; it is {ahead} ahead");
        return Err(Error::invalid("by", expected, by).into());
    }
    Ok(reply::ok(&Now { now: Timestamp(app.engine.advance(clock, by).await) }))
}

fn clock(app: &App) -> &MovableClock {
    app.moves.as_deref().expect("without a clock that can be moved there is no such route")
}
