//! Checks of the names of queues and schedules, of kinds, keys, tags and locks. All of them compare byte by byte.

use crate::invalid::Invalid;
use crate::limits::{
    KEY_BYTES_MAX, KIND_BYTES_MAX, LOCK_NAME_BYTES_MAX, LOCK_OWNER_BYTES_MAX, ORIGIN_BYTES_MAX, QUEUE_BYTES_MAX,
    TAG_BYTES_MAX, TAGS_MAX, WORKER_BYTES_MAX,
};
use std::sync::Arc;

/// The default queue.
pub const QUEUE_DEFAULT: &str = "default";
/// The default kind.
pub const KIND_DEFAULT: &str = "default";
/// The engine's own keys, origins, locks and owners begin with this: no caller may hold or release one.
pub const OF_ENGINE: &str = "duetime:";

/// A queue's name: 1 to 200 of `A-Za-z0-9-+/;.$_()`, not starting with `-`.
///
/// # Errors
/// [`Invalid`].
pub fn check_queue(queue: &str) -> Result<(), Invalid> {
    plain("queue", queue)
}

/// A schedule's name: of the same form as a queue's.
///
/// # Errors
/// [`Invalid`].
pub fn check_schedule(name: &str) -> Result<(), Invalid> {
    plain("schedule", name)
}

/// A kind: 1 to 128 bytes.
///
/// # Errors
/// [`Invalid`].
pub fn check_kind(kind: &str) -> Result<(), Invalid> {
    length("kind", kind, KIND_BYTES_MAX)
}

/// A key: 1 to 255 bytes.
///
/// # Errors
/// [`Invalid`].
pub fn check_key(key: &str) -> Result<(), Invalid> {
    length("key", key, KEY_BYTES_MAX)
}

/// An origin: 1 to 255 bytes.
///
/// # Errors
/// [`Invalid`].
pub fn check_origin(origin: &str) -> Result<(), Invalid> {
    length("origin", origin, ORIGIN_BYTES_MAX)
}

/// A tag: 1 to 255 bytes.
///
/// # Errors
/// [`Invalid`].
pub fn check_tag(tag: &str) -> Result<(), Invalid> {
    length("tag", tag, TAG_BYTES_MAX)
}

/// A lock's name: 1 to 255 bytes.
///
/// # Errors
/// [`Invalid`].
pub fn check_lock(name: &str) -> Result<(), Invalid> {
    length("lock", name, LOCK_NAME_BYTES_MAX)
}

/// An owner of locks: 1 to 255 bytes.
///
/// # Errors
/// [`Invalid`].
pub fn check_owner(owner: &str) -> Result<(), Invalid> {
    length("owner", owner, LOCK_OWNER_BYTES_MAX)
}

/// A worker's name: 1 to 255 bytes.
///
/// # Errors
/// [`Invalid`].
pub fn check_worker(worker: &str) -> Result<(), Invalid> {
    length("worker", worker, WORKER_BYTES_MAX)
}

/// A job's tags: at most 16, no tag twice.
///
/// # Errors
/// [`Invalid`].
pub fn check_tags(tags: &[Arc<str>]) -> Result<(), Invalid> {
    if tags.len() > TAGS_MAX {
        return Err(Invalid::new("tags", format!("at most {TAGS_MAX} tags"), tags.len()));
    }
    for (i, tag) in tags.iter().enumerate() {
        check_tag(tag)?;
        if tags[..i].contains(tag) {
            return Err(Invalid::new("tags", "different from each other", format!("{} twice", shown(tag))));
        }
    }
    Ok(())
}

fn plain(what: &'static str, name: &str) -> Result<(), Invalid> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&b);
    if name.is_empty() || name.len() > QUEUE_BYTES_MAX || name.starts_with('-') || !name.bytes().all(allowed) {
        let expected = "1 to 200 of A-Z a-z 0-9 - + / ; . $ _ ( ), not starting with -";
        return Err(Invalid::new(what, expected, shown(name)));
    }
    Ok(())
}

fn length(what: &'static str, text: &str, max: usize) -> Result<(), Invalid> {
    if text.is_empty() || text.len() > max {
        let got = format!("{} bytes", text.len());
        return Err(Invalid::new(what, format!("1 to {max} bytes"), got));
    }
    Ok(())
}

/// The start of the received text, for an error message.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    if start.len() < text.len() { format!("{start:?}… ({} bytes)", text.len()) } else { format!("{start:?}") }
}

/// Whether a key, a lock or an owner is not one of the engine's own.
///
/// # Errors
/// [`Invalid`].
pub(crate) fn check_free(what: &'static str, name: &str) -> Result<(), Invalid> {
    if name.starts_with(OF_ENGINE) {
        let expected = format!("one that does not begin with {OF_ENGINE}, as the engine's own do");
        return Err(Invalid::new(what, expected, format!("{name:?}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names() {
        for right in ["orders", "a", "A-Z+0/9;.$_()", &"q".repeat(200)] {
            check_queue(right).unwrap();
        }
        for wrong in ["", "-orders", "or ders", "größe", "a\n", &"q".repeat(201)] {
            assert!(check_queue(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tags_are_few_and_distinct() {
        let tags = |n: usize| (0..n).map(|i| Arc::from(format!("t{i}"))).collect::<Vec<Arc<str>>>();
        check_tags(&tags(16)).unwrap();
        assert!(check_tags(&tags(17)).is_err());
        assert!(check_tags(&[Arc::from("a"), Arc::from("a")]).is_err());
        assert!(check_tags(&[Arc::from("")]).is_err());
    }
}
