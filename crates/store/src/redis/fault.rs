//! Classifies errors of Redis by what to do next.

use crate::place;
use duetime_core::Error;
use duetime_core::error::system_words;
use redis::{ErrorKind, RedisError, ServerErrorKind};
use std::time::Duration;

/// The possible remedy after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Send the source: the server does not have the script.
    SendSource,
    /// Send it over the connection for large replies.
    SendLarge,
    /// Retry after a pause, on the same connection.
    Wait,
    /// Retry after a pause: a master lacks replicas. Behind Sentinel it may be a former master that was not demoted. It always
    /// answers so, and a new connection finds its successor.
    AwaitReplicas,
    /// Retry on a new connection: this one is broken, or leads to the wrong server.
    Reconnect,
    /// Nothing.
    None,
}

/// The answer of a script if the partition has another incarnation.
const INCARNATION: &str = "INCARNATION";

pub(super) fn is_incarnation(error: &Error) -> bool {
    matches!(error, Error::Unavailable(text) if text.starts_with(INCARNATION))
}

/// The answer of a script that requires a memory which has begun.
const UNBEGUN: &str = "UNBEGUN";

pub(super) fn is_unbegun(error: &Error) -> bool {
    matches!(error, Error::Unavailable(text) if text.starts_with(UNBEGUN))
}

/// The values that a memory requires to begin are unavailable.
pub(super) fn not_begun(error: &Error) -> Error {
    Error::Unavailable(format!("{NOT_BEGUN}: {error}"))
}

const NOT_BEGUN: &str = "Redis was emptied, restarted or replaced, and cannot be initialized";

/// What the memory holds has not been compared with the ledger.
pub(super) fn not_compared(error: &Error) -> Error {
    Error::Unavailable(format!("{NOT_COMPARED}: {error}"))
}

const NOT_COMPARED: &str = "Redis was restarted or replaced, and has not been compared with the ledger yet";

pub(super) fn is_not_compared(error: &Error) -> bool {
    matches!(error, Error::Unavailable(text) if text.starts_with(NOT_COMPARED))
}

/// Whether nothing can be handed out because the memory has not begun.
pub(super) fn is_not_begun(error: &Error) -> bool {
    is_not_compared(error) || matches!(error, Error::Unavailable(text) if text.starts_with(NOT_BEGUN))
}

const NOT_REDIS: &str = "is not Redis: check host and port in its URL";

/// The error of the first connection, at a start. Waiting does not turn another server into Redis. Later it may: a proxy answers
/// in place of a Redis that restarts.
pub(super) fn at_start(error: Error) -> Error {
    match error {
        Error::Unavailable(text) if text.ends_with(NOT_REDIS) => Error::Unusable(text),
        error => error,
    }
}

pub(super) fn timed_out(after: Duration) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no answer within {} s", after.as_secs())).into()
}

pub(super) fn remedy(error: &RedisError) -> Remedy {
    if is_about_certificates(error) {
        return Remedy::None;
    }
    if error.is_io_error() || error.is_connection_dropped() || error.is_timeout() {
        return Remedy::Reconnect;
    }
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoScript) => Remedy::SendSource,
        ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::TryAgain) => Remedy::Wait,
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask,
        )
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::Parse => Remedy::Reconnect,
        _ => match code(error) {
            "BUSY" => Remedy::Wait,
            "NOREPLICAS" => Remedy::AwaitReplicas,
            "LARGE" => Remedy::SendLarge,
            // Redis 6.2 wraps errors of commands within a script.
            _ if error.to_string().contains("READONLY") => Remedy::Reconnect,
            _ => Remedy::None,
        },
    }
}

/// Converts an error of the Redis at `place` for the engine.
pub(super) fn explain(error: &RedisError, place: &str) -> Error {
    let text = system_words(&error.to_string());
    let text = text.strip_prefix("Failed to create initial connections - Io: ").unwrap_or(&text);
    if is_about_certificates(error) {
        return Error::Unusable(format!(
            "the certificate of {place} is not trusted by this machine, or is for another host name"
        ));
    }
    let says = |word: &str| code(error) == word || text.contains(word);
    if code(error) == INCARNATION {
        Error::Unavailable(format!("{INCARNATION}: Redis was emptied or replaced"))
    } else if code(error) == UNBEGUN {
        Error::Unavailable(format!("{UNBEGUN}: Redis was emptied or replaced"))
    } else if says("OOM") {
        Error::Full("Redis has reached its maxmemory: raise it, or let workers catch up".into())
    } else if says("MISCONF") {
        Error::Full(format!("Redis cannot write to its disk: {text}"))
    } else if matches!(error.kind(), ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask)) {
        Error::Unavailable(format!(
            "this Redis belongs to a Cluster: use redis+cluster://; if you do, its slots are being moved ({text})"
        ))
    } else if error.kind() == ErrorKind::RESP3NotSupported {
        Error::Unusable("Redis 6.2 or later, or Valkey, is needed; this one is older than 6".into())
    } else if says("NOAUTH") {
        Error::Unusable(format!(
            "{place} needs a password: write redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST"
        ))
    } else if matches!(error.kind(), ErrorKind::AuthenticationFailed) || says("WRONGPASS") {
        Error::Unusable(format!("{place} rejected the user or password; check them in its URL, before the @"))
    } else if text.contains("does not point to a sentinel") {
        Error::Unusable(format!(
            "the server at {place} is not a Sentinel: name the Sentinels, or use redis:// for a Redis"
        ))
    } else if text.contains("cluster support disabled") {
        Error::Unusable(format!("the server at {place} is not part of a Cluster: use redis:// in its URL"))
    } else if text.contains("DB index is out of range") {
        Error::Unusable(format!("{place} has no database of this number; change the number at the end of its URL"))
    } else if says("NOPERM") || says("can't run this command") {
        Error::Unusable(format!("the Redis user lacks required rights: {text}"))
    } else if error.kind() == ErrorKind::Parse {
        Error::Unavailable(format!("the server at {place} {NOT_REDIS}"))
    } else if remedy(error) == Remedy::None {
        Error::Damaged(format!("unexpected answer from Redis: {text}"))
    } else {
        Error::Unavailable(place::advised(format!("{place}: {text}{}", without_tls(error, place))))
    }
}

/// Advice if a connection with TLS gets no answer: a server without TLS waits for the end of a line.
fn without_tls(error: &RedisError, place: &str) -> &'static str {
    let is_silent = error.is_timeout() || error.is_connection_dropped() || error.to_string().contains("end of file");
    if place.starts_with("rediss") && is_silent {
        "; if this Redis has no TLS on this port, use `redis` instead of `rediss` in its URL"
    } else {
        ""
    }
}

fn is_about_certificates(error: &RedisError) -> bool {
    error.is_io_error() && error.to_string().contains("certificate")
}

fn code(error: &RedisError) -> &str {
    error.code().unwrap_or_default()
}
