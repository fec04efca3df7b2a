//! What there is in a queue of message_queue.

use super::{Done, Keys, MessageQueue, Naming, due_at, id};
use crate::cli::adopt::redis::Redis;
use crate::cli::adopt::source::{Look, Part, SAMPLES_MAX, Sample, Trouble};
use crate::cli::exit::Failure;
use crate::cli::output::snippet;

/// The layout's name.
const LAYOUT: &str = "message-queue";

impl MessageQueue {
    /// Finds the names of the keys, counts, and reads the first jobs.
    pub(super) async fn survey(&mut self, redis: &Redis) -> Done<Look> {
        let why = self.recognise(redis).await?;
        let Keys { delayed, list, reserved } = self.keys();
        let now = redis.now().await?;
        let at = |ms: u64| format!("{:.3}", ms as f64 / 1e3);
        let (due, near) = (at(now), at(now.saturating_add(self.safety.0)));
        let mut look = Look {
            layout: LAYOUT.to_owned(),
            why,
            parts: Vec::new(),
            samples: Vec::new(),
            unread: 0,
            notes: Vec::new(),
        };
        let waiting = if self.is_stopped {
            look.notes.push("With --listener-stopped, a listener that is still running loses jobs.".to_owned());
            Part {
                due: count(redis, &delayed, "-inf", &due).await?,
                later: count(redis, &delayed, &format!("({due}"), "+inf").await?,
                ..Part::default()
            }
        } else {
            let long_ago = at(now.saturating_sub(self.safety.0));
            self.warn(count(redis, &delayed, "-inf", &long_ago).await?, &mut look);
            let left = count(redis, &delayed, "-inf", &near).await?;
            Part {
                later: count(redis, &delayed, &format!("({near}"), "+inf").await?,
                left,
                why_left: (left > 0).then(|| format!("due within {}, left to the listener", self.safety)),
                ..Part::default()
            }
        };
        let listed: u64 = redis.ask(redis::cmd("LLEN").arg(&list)).await?;
        let all: u64 = redis.ask(redis::cmd("ZCARD").arg(&reserved)).await?;
        let over = if self.is_stopped { count(redis, &reserved, "-inf", &due).await? } else { 0 };
        let running = all.saturating_sub(over);
        self.sample(redis, &mut look).await?;
        self.judge(redis, &look).await?;
        let why_left = (running > 0).then(|| "running".to_owned());
        look.parts = vec![
            Part { name: delayed, ..waiting },
            Part { name: list, due: listed, ..Part::default() },
            Part { name: reserved, due: over, left: running, why_left, ..Part::default() },
        ];
        look.parts.retain(|part| part.due + part.later + part.left > 0);
        Ok(look)
    }

    /// Refuses keys with the same names that hold other jobs, before anything is claimed.
    async fn judge(&mut self, redis: &Redis, look: &Look) -> Done {
        let are_others = look.unread > 0 && look.unread == look.samples.len() as u64;
        if are_others && !self.is_known && redis.count().await? == 0 {
            let Sample { part, payload, .. } = &look.samples[0];
            let failure = Failure::error(format!("{part} contains jobs that are not of message_queue: {payload}"));
            return Err(Trouble::Failed(failure.hint(
                "Laravel's queues use keys with the same names; see `duetime adopt \
             laravel`",
            )));
        }
        self.is_known = true;
        Ok(())
    }

    fn warn(&self, overdue: u64, look: &mut Look) {
        let safety = self.safety;
        look.notes.push(format!(
            "Its listener may be running, so jobs due within {safety} are left to it. Jobs are taken before they are due: \
             later changes in the source do not reach them."
        ));
        if overdue > 0 {
            look.notes.push(format!(
                "{overdue} jobs are overdue by more than {safety}, so the listener seems to be stopped. If it is, add \
                 --listener-stopped."
            ));
        }
    }

    /// Finds out which keys are there.
    async fn recognise(&mut self, redis: &Redis) -> Done<String> {
        let place = redis.place();
        let mut found = Vec::new();
        for naming in [Naming::Code, Naming::Article] {
            let Keys { delayed, list, reserved } = naming.keys(&self.name);
            let keys: u64 = redis.ask(redis::cmd("EXISTS").arg(&[delayed, list, reserved])).await?;
            if keys > 0 {
                found.push(naming);
            }
        }
        if self.naming.is_none() {
            self.naming = match *found {
                [] => None,
                [naming] => Some(naming),
                _ => {
                    let failure = Failure::usage(format!("the queue {:?} has keys of both namings", self.name));
                    return Err(Trouble::Failed(failure.hint("choose with --naming code or --naming article")));
                }
            };
        }
        let Keys { delayed, list, reserved } = self.keys();
        let is_there = found.contains(&self.naming.unwrap_or(Naming::Code));
        let these = if is_there { "some of the keys" } else { "none of the keys" };
        Ok(format!("{these} {delayed}, {list} and {reserved} exist at {place}"))
    }

    /// Reads the first jobs.
    async fn sample(&self, redis: &Redis, look: &mut Look) -> Done {
        let Keys { delayed, list, .. } = self.keys();
        let half = SAMPLES_MAX / 2;
        let mut command = redis::cmd("ZRANGE");
        command.arg(&delayed).arg(0).arg(half - 1).arg("WITHSCORES");
        let first: Vec<(Vec<u8>, f64)> = redis.ask(&command).await?;
        let next: Vec<Vec<u8>> = redis.ask(redis::cmd("LRANGE").arg(&list).arg(0).arg(half - 1)).await?;
        let scored = first.into_iter().map(|(member, score)| (&delayed, member, Some(score)));
        let listed = next.into_iter().map(|member| (&list, member, None));
        for (key, member, score) in scored.chain(listed) {
            let read = id(&member);
            look.unread += u64::from(read.is_err());
            look.samples.push(Sample {
                part: key.clone(),
                due_at_ms: score.and_then(|score| due_at(score.to_string().as_bytes())),
                due_as: score.map_or_else(|| "in the list".to_owned(), |score| format!("score {score}, in seconds")),
                payload: read.map_or_else(|why| why, |_| snippet(&member)),
            });
        }
        Ok(())
    }
}

/// How many members have scores between these.
async fn count(redis: &Redis, key: &str, min: &str, max: &str) -> Done<u64> {
    redis.ask(redis::cmd("ZCOUNT").arg(key).arg(min).arg(max)).await
}
