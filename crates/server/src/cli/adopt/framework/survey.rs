//! A look at the keys of a framework: counts, and some of the jobs.

use super::{Texts, instant};
use crate::cli::adopt::redis::Redis;
use crate::cli::adopt::source::{Look, Part, SAMPLES_MAX, Sample, Trouble};
use crate::cli::exit::Failure;
use crate::cli::output::snippet;
use duetime_core::{Millis, NewJob};

/// Members at each end of a key that are looked at. Those at one end may be some that nobody can read.
const ENDS: [[i64; 2]; 2] = [[0, 2], [-3, -1]];

type Done<T = ()> = Result<T, Trouble>;

/// Which members of a sorted set are taken.
#[derive(Clone, Copy)]
pub(super) enum Taken {
    All,
    /// Those that are due. The others are left, for this reason.
    Due(&'static str),
    /// None, for this reason.
    None(&'static str),
}

/// A member that was looked at.
struct Member {
    /// As in a claim.
    texts: [Vec<u8>; 3],
    due_at_ms: Option<Millis>,
    due_as: String,
}

/// Everything that was found so far.
pub(super) struct Survey<'a> {
    redis: &'a Redis,
    now: Millis,
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
        let count: u64 = self.redis.ask(redis::cmd("LLEN").arg(key)).await?;
        let now = (self.now / 1_000).to_string();
        for [from, to] in ENDS {
            let members: Vec<Vec<u8>> = self.redis.ask(redis::cmd("LRANGE").arg(key).arg(from).arg(to)).await?;
            for member in members {
                self.see([key.into(), member, now.clone().into()], None, "in the list".to_owned());
            }
        }
        let name = key.to_owned();
        self.parts.push(match why_left {
            None => Part { name, due: count, ..Part::default() },
            Some(why) => Part { name, left: count, why_left: Some(why.to_owned()), ..Part::default() },
        });
        Ok(())
    }

    /// Looks at a sorted set whose scores are seconds.
    pub(super) async fn set(&mut self, key: &str, taken: Taken) -> Done {
        if !self.has(key, "zset").await? {
            return Ok(());
        }
        let count: u64 = self.redis.ask(redis::cmd("ZCARD").arg(key)).await?;
        let mut counted = redis::cmd("ZCOUNT");
        counted.arg(key).arg("-inf").arg(self.now as f64 / 1_000.0);
        let due: u64 = self.redis.ask(&counted).await?;
        let (name, later) = (key.to_owned(), count.saturating_sub(due));
        self.parts.push(match taken {
            Taken::All => Part { name, due, later, ..Part::default() },
            Taken::Due(why) => Part { name, due, left: later, why_left: Some(why.to_owned()), ..Part::default() },
            Taken::None(why) => Part { name, left: count, why_left: Some(why.to_owned()), ..Part::default() },
        });
        if !matches!(taken, Taken::All) {
            return Ok(());
        }
        for [from, to] in ENDS {
            let mut range = redis::cmd("ZRANGE");
            range.arg(key).arg(from).arg(to).arg("WITHSCORES");
            for (member, score) in self.redis.ask::<Vec<(Vec<u8>, f64)>>(&range).await? {
                let score = score.to_string();
                let (due_at_ms, due_as) = (instant(score.as_bytes()), format!("score {score}, in seconds"));
                self.see([key.into(), member, score.into()], due_at_ms, due_as);
            }
        }
        Ok(())
    }

    /// Keeps a member, unless it is one of both ends.
    fn see(&mut self, texts: [Vec<u8>; 3], due_at_ms: Option<Millis>, due_as: String) {
        if self.members.iter().all(|member| member.texts != texts) {
            self.members.push(Member { texts, due_at_ms, due_as });
        }
    }

    /// True if a key is there.
    ///
    /// # Errors
    /// If it is of another type.
    pub(super) async fn has(&mut self, key: &str, expected: &str) -> Done<bool> {
        let found: String = self.redis.ask(redis::cmd("TYPE").arg(key)).await?;
        if found == "none" {
            return Ok(false);
        }
        if found != expected {
            let [expected, found] = [expected, &*found].map(|kind| if kind == "zset" { "sorted set" } else { kind });
            return Err(Failure::usage(format!("the Redis key {key} must be a {expected}; it is a {found}")).into());
        }
        self.keys.push(key.to_owned());
        Ok(true)
    }

    /// The look, with this to read members.
    ///
    /// # Errors
    /// If there are members and none can be read, in the first look of a command. Later ones may find only those that were refused.
    pub(super) fn end(
        self,
        layout: &str,
        is_first: bool,
        read: impl Fn(&Texts) -> Result<NewJob, String>,
    ) -> Done<Look> {
        let Self { redis, keys, parts, members, .. } = self;
        let (mut samples, mut notes, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        let count = members.len();
        for Member { texts, due_at_ms, due_as } in members {
            let part = String::from_utf8_lossy(&texts[0]).into_owned();
            let payload = match read(&texts) {
                Ok(_) => snippet(&texts[1]),
                Err(why) => {
                    wrong.push(format!("{} in {part}: {why}", snippet(&texts[1])));
                    format!("({why})")
                }
            };
            samples.push(Sample { part, due_at_ms, due_as, payload });
        }
        samples.truncate(SAMPLES_MAX);
        if is_first && count > 0 && wrong.len() == count {
            return Err(Failure::usage(format!("these are not jobs of {layout}: {}", wrong[0])).into());
        }
        let place = redis.place();
        let why = if keys.is_empty() {
            notes.push("Nothing was found. Check the names: a wrong name looks the same as an empty queue.".to_owned());
            format!("there are no jobs in {place}")
        } else {
            format!("{} in {place}", keys.join(", "))
        };
        Ok(Look { layout: layout.to_owned(), why, parts, samples, unread: wrong.len() as u64, notes })
    }
}
