//! A look at the keys of a framework: counts, and some of the jobs.

use super::{Texts, instant};
use crate::cli::adopt::look::name;
use crate::cli::adopt::redis::Redis;
use crate::cli::adopt::source::{Done, Look, Part, SAMPLES_MAX, Sample};
use crate::cli::exit::Failure;
use crate::cli::output::snippet;
use duetime_core::Millis;

/// Members at each end of a key that are looked at. Both ends, since those at one end may all be unreadable.
const ENDS: [[i64; 2]; 2] = [[0, 2], [-3, -1]];

/// Keys that the reason for a layout names.
const NAMED_MAX: usize = 10;

/// The members of a sorted set that are taken, and why the others stay.
#[derive(Clone, Copy)]
pub(super) enum Selection<'a> {
    All,
    /// Members that are due.
    Due(&'a str),
    /// Members that are not due within this many milliseconds.
    Beyond(u64, &'a str),
    None(&'a str),
}

/// An examined member.
struct Member {
    /// As in a claim.
    texts: [Vec<u8>; 3],
    due_at_ms: Option<Millis>,
    due_as: String,
}

/// Everything that was found so far.
pub(super) struct Survey<'a> {
    redis: &'a Redis,
    pub(super) now: Millis,
    /// Keys that are there.
    keys: Vec<String>,
    parts: Vec<Part>,
    members: Vec<Member>,
}

impl<'a> Survey<'a> {
    pub(super) async fn begin(redis: &'a Redis) -> Done<Self> {
        let now = redis.now().await?;
        Ok(Self { redis, now, keys: Vec::new(), parts: Vec::new(), members: Vec::new() })
    }

    /// Looks at a list, which may be left for a reason.
    pub(super) async fn list(&mut self, key: &str, why_left: Option<&str>) -> Done {
        if !self.has(key, "list").await? {
            return Ok(());
        }
        let now = (self.now / 1_000).to_string();
        for [from, to] in ENDS {
            for member in self.redis.call::<Vec<Vec<u8>>>("LRANGE", (key, from, to)).await? {
                self.see([key.into(), member, now.clone().into()], None, "in the list".to_owned());
            }
        }
        if let Some(why) = why_left {
            return self.leave(key.as_bytes(), why).await;
        }
        let due = self.redis.call("LLEN", key).await?;
        self.parts.push(Part { name: key.to_owned(), due, ..Part::default() });
        Ok(())
    }

    /// Counts a list that is left.
    pub(super) async fn leave(&mut self, key: &[u8], why: &str) -> Done {
        let (name, left) = (String::from_utf8_lossy(key).into_owned(), self.redis.call("LLEN", key).await?);
        self.parts.push(Part { name, left, why_left: Some(why.to_owned()), ..Part::default() });
        Ok(())
    }

    /// Looks at a sorted set whose scores are seconds.
    pub(super) async fn set(&mut self, key: &str, taken: Selection<'_>) -> Done {
        if !self.has(key, "zset").await? {
            return Ok(());
        }
        let all: u64 = self.redis.call("ZCARD", key).await?;
        let until_ms = if let Selection::Beyond(ms, _) = taken { self.now.saturating_add(ms) } else { self.now };
        let due = self.due(key, until_ms).await?;
        let others = all.saturating_sub(due);
        let (due, later, left, why) = match taken {
            Selection::All => (due, others, 0, None),
            Selection::Due(why) => (due, 0, others, Some(why)),
            Selection::Beyond(_, why) => (0, others, due, Some(why)),
            Selection::None(why) => (0, 0, all, Some(why)),
        };
        let why_left = why.filter(|_| left > 0).map(str::to_owned);
        self.parts.push(Part { name: key.to_owned(), due, later, left, why_left, ..Part::default() });
        if !matches!(taken, Selection::All | Selection::Beyond(..)) {
            return Ok(());
        }
        for [from, to] in ENDS {
            let range = self.redis.call::<Vec<(Vec<u8>, f64)>>("ZRANGE", (key, from, to, "WITHSCORES"));
            for (member, score) in range.await? {
                let score = score.to_string();
                let (due_at_ms, due_as) = (instant(score.as_bytes()), format!("score {score}, in seconds"));
                self.see([key.into(), member, score.into()], due_at_ms, due_as);
            }
        }
        Ok(())
    }

    /// The number of members of a sorted set that are due up to an instant.
    pub(super) async fn due(&self, key: &str, until_ms: Millis) -> Done<u64> {
        self.redis.call("ZCOUNT", (key, "-inf", until_ms as f64 / 1e3)).await
    }

    /// Keeps a member, unless it is one of both ends.
    fn see(&mut self, texts: [Vec<u8>; 3], due_at_ms: Option<Millis>, due_as: String) {
        if self.members.iter().all(|member| member.texts != texts) {
            self.members.push(Member { texts, due_at_ms, due_as });
        }
    }

    /// True if a key exists.
    ///
    /// # Errors
    /// If it is of another type.
    pub(super) async fn has(&mut self, key: &str, expected: &str) -> Done<bool> {
        let found: String = self.redis.call("TYPE", key).await?;
        if found == "none" {
            return Ok(false);
        }
        if found != expected {
            let [expected, found] = [expected, &*found].map(|kind| if kind == "zset" { "sorted set" } else { kind });
            return Err(
                Failure::usage(format!("the Redis key {} must be a {expected}; it is a {found}", name(key))).into()
            );
        }
        self.keys.push(key.to_owned());
        Ok(true)
    }

    /// The look, with this to read members.
    ///
    /// # Errors
    /// If there are members and none can be read, in the first look of a command. Later ones may find only those that were refused.
    pub(super) fn end<T>(
        self,
        layout: &str,
        is_first: bool,
        read: impl Fn(&Texts) -> Result<T, String>,
    ) -> Result<Look, Failure> {
        let Self { redis, keys, parts, members, .. } = self;
        let (mut samples, mut notes, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        let count = members.len();
        for Member { texts, due_at_ms, due_as } in members {
            let part = String::from_utf8_lossy(&texts[0]).into_owned();
            let payload = match read(&texts) {
                Ok(_) => snippet(&texts[1]),
                Err(why) => {
                    wrong.push(format!("{} in {}: {why}", snippet(&texts[1]), name(&part)));
                    format!("({why})")
                }
            };
            samples.push(Sample { part, due_at_ms, due_as, payload });
        }
        samples.truncate(SAMPLES_MAX);
        if is_first && count > 0 && wrong.len() == count {
            return Err(Failure::usage(format!("these are not jobs of {layout}: {}", wrong[0])));
        }
        let place = redis.place();
        let why = if keys.is_empty() {
            notes.push("Nothing was found. Check the names: a wrong name looks the same as an empty queue.".to_owned());
            format!("there are no jobs in {place}")
        } else {
            let named: Vec<String> = keys.iter().take(NAMED_MAX).map(|key| name(key)).collect();
            let others = match keys.len() - named.len() {
                0 => String::new(),
                others => format!(" and {others} others"),
            };
            format!("{}{others} in {place}", named.join(", "))
        };
        Ok(Look {
            layout: layout.to_owned(),
            why,
            parts,
            samples,
            unread: wrong.len() as u64,
            notes,
            first: None,
            is_missing: false,
            only_drains: false,
        })
    }
}
