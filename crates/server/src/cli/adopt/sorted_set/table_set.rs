//! `duetime adopt table-set`: a sorted set of the ids of rows. Only members whose row has a certain status are jobs.
//!
//! To claim, due members and their rows are read, and a script takes those with the status, if they are still there and
//! still due. Then their rows are read again, since a status may have changed before that script: members whose rows are no
//! longer jobs go back. Until then nothing is pushed, and the claim log says so. Members without such a row stay. They are
//! skipped by rank, so that they hide no others: once in order of their due times, and then in rounds, a page at each call,
//! since their rows may change.

use super::{Done, PUT_BACK, SetArgs, SortedSet};
use crate::cli::adopt::layout::{BATCH, Layout, RedisSource};
use crate::cli::adopt::redis::{ClaimResult, LogEntries, Redis};
use crate::cli::adopt::source::{Look, Step, Trouble};
use crate::cli::exit::Result;
use async_trait::async_trait;
use duetime_core::api::Timestamp;
use duetime_core::limits::DELAY_MS_MAX;
use duetime_core::{Due, Millis, NewJob, OnConflict};
use duetime_store::sql::Foreign;
use std::collections::HashSet;
use std::sync::Arc;

const LAYOUT: &str = "table-set";
const PEEK: &str = include_str!("peek.lua");
const PICK: &str = include_str!("pick.lua");
const SETTLE: &str = include_str!("settle.lua");
/// The last text of a claim that is not settled.
const OPEN: &[u8] = b"?";
/// Members that a look compares with the table.
const LOOKED_MAX: usize = 10_000;
/// A note about old consumers.
const CRON: &str = "If the old cron job removes a member only after running it, stop it first: it would also run jobs that were taken.";

/// Take over a sorted set in Redis whose members are ids of rows in an SQL table.
///
/// Only members whose row has the given status are taken; the others stay. The table is only read. By default it only looks
/// and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt table-set --from redis://127.0.0.1:6379 --key delay_queue_job --to jobs --rows mysql://app@127.0.0.1/shop --table delay_queue
  duetime adopt table-set --from redis://127.0.0.1:6379 --key delay_queue_job --to jobs --rows mysql://app@127.0.0.1/shop --table delay_queue --drain --yes table-set")]
pub(in crate::cli::adopt) struct Args {
    #[command(flatten)]
    pub(in crate::cli::adopt) set: SetArgs,
    /// Database with the rows: mysql://user:password@host/database or postgres://…
    #[arg(long, value_name = "URL")]
    rows: String,
    /// Table name, optionally with its schema: SCHEMA.TABLE
    #[arg(long, value_name = "NAME")]
    table: String,
    /// Column that contains the members
    #[arg(long, value_name = "NAME", default_value = "id")]
    id_column: String,
    /// Column that marks rows as jobs
    #[arg(long, value_name = "NAME", default_value = "status")]
    status_column: String,
    /// Value of that column for jobs
    #[arg(long, value_name = "VALUE", default_value = "1")]
    status: String,
}

impl Args {
    pub(in crate::cli::adopt) fn source(&self) -> Result<RedisSource> {
        let Self { set: SetArgs { from, key, .. }, rows, table, id_column, status_column, status } = self;
        let rows = Foreign::new(rows, table, id_column, status_column, status)?;
        let why_left = format!("without a row in {table} with {status_column} = {status}");
        let set = SortedSet::new(&self.set, OnConflict::Replace)?;
        let table_set = TableSet { set, rows, why_left, passed: 0, lap: 0, has_taken: false };
        RedisSource::new(from, key, Some(&self.set.to), Box::new(table_set))
    }
}

struct TableSet {
    set: SortedSet,
    rows: Foreign,
    /// Of a member.
    why_left: String,
    /// Members by rank that were looked at, and stay.
    passed: usize,
    /// The rank up to which these were looked at again.
    lap: usize,
    /// Members were taken since a drain began at the first rank.
    has_taken: bool,
}

impl TableSet {
    /// The members whose rows have the status.
    async fn jobs(&self, members: impl Iterator<Item = &[u8]> + Send) -> Done<HashSet<Vec<u8>>> {
        let ids: Vec<&str> = members.filter_map(|member| std::str::from_utf8(member).ok()).collect();
        let waiting = self.rows.waiting(&ids).await.map_err(|error| Trouble::with("--rows", error))?;
        Ok(waiting.into_iter().map(|id| id.as_bytes().to_vec()).collect())
    }

    /// Reads the rows of claims that are not settled, and settles them. Answers those that are jobs.
    async fn settle(&self, redis: &mut Redis, mut logged: Vec<LogEntries>) -> Done<Vec<LogEntries>> {
        let is_open = |texts: &[Vec<u8>]| texts.last().is_some_and(|text| text == OPEN);
        let open = || logged.iter().filter(|(_, texts)| is_open(texts));
        if open().next().is_none() {
            return Ok(logged);
        }
        let jobs = self.jobs(open().map(|(_, texts)| texts[0].as_slice())).await?;
        let flag = |texts: &[Vec<u8>]| if jobs.contains(&texts[0]) { &b"1"[..] } else { b"0" };
        let arguments = open().flat_map(|(id, texts)| [id.as_bytes(), &texts[0], &texts[1], flag(texts)]);
        let arguments: Vec<&[u8]> = arguments.collect();
        let claims: Vec<Arc<str>> = open().map(|(id, _)| id.clone()).collect();
        let held = redis.settle(SETTLE, &self.keys(), arguments, &claims).await?;
        logged.retain(|(id, texts)| !is_open(texts) || held.contains(id) && jobs.contains(&texts[0]));
        for (_, texts) in &mut logged {
            texts.truncate(3);
        }
        Ok(logged)
    }

    /// Claims the jobs among the next members.
    async fn claim_page(&mut self, redis: &mut Redis, step: Step) -> Done<(usize, ClaimResult)> {
        let Some(range) = self.set.range(redis, step).await? else { return Ok((0, ClaimResult::default())) };
        let (_, per_second, _, ahead_ms) = range;
        let arguments = (PEEK, 1, &self.set.key, per_second, ahead_ms, self.passed, self.lap, BATCH);
        let (now, wait_ms, passed, next, again): (Millis, u64, usize, Vec<Vec<u8>>, Vec<Vec<u8>>) =
            redis.call("EVAL", arguments).await?;
        self.passed = passed;
        let members = || next.iter().chain(&again).map(Vec::as_slice);
        let jobs = self.jobs(members()).await?;
        let picked: Vec<&[u8]> = members().filter(|member| jobs.contains(*member)).collect();
        let mut claimed = ClaimResult { now, wait_ms, ..ClaimResult::default() };
        if !picked.is_empty() {
            let logged = redis.claim(PICK, &self.keys(), (range, picked)).await?.logged;
            claimed.logged = self.settle(redis, logged).await?;
        }
        let taken: HashSet<&[u8]> =
            claimed.logged.iter().filter_map(|(_, texts)| Some(texts.first()?.as_slice())).collect();
        let left = |page: &[Vec<u8>]| page.iter().filter(|member| !taken.contains(member.as_slice())).count();
        self.passed = self.passed + left(&next) - (again.len() - left(&again));
        self.lap += left(&again);
        if self.lap >= self.passed {
            self.lap = 0;
        }
        Ok((next.len(), claimed))
    }
}

#[async_trait]
impl Layout for TableSet {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        // Also of an empty set it says whether there is a table.
        self.jobs(std::iter::empty()).await?;
        let mut look = self.set.look(redis, LAYOUT).await?;
        look.notes.push(CRON.to_owned());
        let Some(unit) = self.set.unit else { return Ok(look) };
        let now = redis.now().await?;
        let (mut left_due, mut left_later, mut looked_at, mut from) = (0, 0, 0, 0);
        while from < LOOKED_MAX {
            let page: Vec<(Vec<u8>, f64)> =
                redis.call("ZRANGE", (&self.set.key, from, from + BATCH - 1, "WITHSCORES")).await?;
            let jobs = self.jobs(page.iter().map(|(member, _)| member.as_slice())).await?;
            for (member, score) in &page {
                let left = match unit.due(*score) {
                    None => continue,
                    // It stays anyway.
                    Some(Due::At(Timestamp(at))) if at > now + DELAY_MS_MAX => continue,
                    Some(Due::At(Timestamp(at))) if at > now => &mut left_later,
                    Some(_) => &mut left_due,
                };
                looked_at += 1;
                *left += u64::from(!jobs.contains(member));
            }
            from += BATCH;
            if page.len() < BATCH {
                break;
            }
        }
        let part = &mut look.parts[0];
        let total = part.due + part.later + part.left;
        if total > LOOKED_MAX as u64 {
            look.notes.push(format!("Only the first {LOOKED_MAX} of {total} members were compared with the table."));
            part.unchecked = (part.due + part.later).saturating_sub(looked_at);
            // The latest ones are the last.
            let later = part.later.min(part.unchecked);
            (part.later, part.due) = (part.later - later, part.due - (part.unchecked - later));
        }
        part.due = part.due.saturating_sub(left_due);
        part.later = part.later.saturating_sub(left_later);
        let left = left_due + left_later;
        if left > 0 {
            let others = part.why_left.take().map_or_else(String::new, |why| format!(", {why}"));
            part.why_left = Some(format!("{left} {}{others}", self.why_left));
            part.left += left;
        }
        Ok(look)
    }

    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<ClaimResult> {
        loop {
            let (looked_at, mut claimed) = self.claim_page(redis, step).await?;
            self.has_taken |= !claimed.logged.is_empty();
            if step == Step::Follow {
                if looked_at > 0 {
                    claimed.wait_ms = 0;
                }
                return Ok(claimed);
            }
            if !claimed.logged.is_empty() {
                return Ok(claimed);
            }
            if looked_at == 0 {
                if !self.has_taken {
                    return Ok(claimed);
                }
                // Ranks have moved meanwhile: it ends when it finds nothing from the first one on.
                (self.passed, self.has_taken) = (0, false);
            }
        }
    }

    /// A run that was killed may have left some that are not settled.
    async fn replayed(&mut self, redis: &mut Redis, logged: Vec<LogEntries>) -> Done<Vec<LogEntries>> {
        self.settle(redis, logged).await
    }

    fn read(&self, texts: &[Vec<u8>]) -> std::result::Result<NewJob, String> {
        self.set.read(texts)
    }

    fn put_back(&self) -> &'static str {
        PUT_BACK
    }

    fn keys(&self) -> Vec<String> {
        vec![self.set.key.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::adopt::sorted_set::Unit;
    use duetime_store::testing::{PostgresServer, RedisServer};

    #[tokio::test]
    async fn what_the_old_code_changed_since_it_was_read_is_not_taken() {
        let server = RedisServer::start();
        let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
        let now_s = redis.now().await.unwrap() / 1_000;
        for (member, score) in
            [("due", now_s - 1), ("small", 0), ("later", now_s + 60), ("milliseconds", now_s * 1_000)]
        {
            let _: u64 = redis.ask(redis::cmd("ZADD").arg("jobs").arg(score).arg(member)).await.unwrap();
        }
        for (step, expected) in [(Step::Follow, &["due", "small"][..]), (Step::Drain, &["later"])] {
            let range = SortedSet::range_of(Unit::Seconds, step);
            let members = ["due", "small", "later", "milliseconds", "removed"];
            let claimed = redis.claim(PICK, &["jobs"], (range, members.as_slice())).await.unwrap().logged;
            let taken: Vec<&[u8]> = claimed.iter().map(|(_, texts)| texts[0].as_slice()).collect();
            assert_eq!(taken, expected.iter().map(|member| member.as_bytes()).collect::<Vec<_>>());
        }
        assert_eq!(server.command(&["ZRANGE", "jobs", "0", "-1"]), "milliseconds");
    }

    /// A row changes after it was read, and before its member is claimed.
    #[tokio::test]
    async fn a_status_that_changed_before_the_claim_counts() {
        let (server, database) = (RedisServer::start(), PostgresServer::start());
        let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("CREATE TABLE jobs AS SELECT id, 1 AS status FROM generate_series(1, 4) id")
            .await
            .unwrap();
        server.command(&["ZADD", "jobs", "1", "1", "2", "2", "3", "3", "4", "4"]);
        let mut drain = drain_of(&database.url());
        let range = SortedSet::range_of(Unit::Seconds, Step::Drain);
        let texts = |all: &[&'static str]| all.iter().map(|text| text.as_bytes()).collect::<Vec<_>>();
        for (members, cancelled, left) in [(["1", "2"], 2, &["1"][..]), (["3", "4"], 3, &["1", "4"])] {
            let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
            client.execute("UPDATE jobs SET status = 0 WHERE id = $1", &[&cancelled]).await.unwrap();
            let logged = redis.claim(PICK, &["jobs"], (range, members.as_slice())).await.unwrap().logged;
            assert_eq!(logged.len(), 2);
            // Immediately; or by the next run, if this one is killed.
            let settled = if cancelled == 2 {
                let mut other = Redis::new(&server.url(), "jobs", None).unwrap();
                let seen = other.replay().await.unwrap();
                let settled = drain.settle(&mut redis, logged).await.unwrap();
                // A settled job may have been pushed, so another command does not put it back. Nor does it push a job that
                // was put back.
                client.batch_execute("UPDATE jobs SET status = 0 WHERE id = 1").await.unwrap();
                assert!(drain.settle(&mut other, seen.clone()).await.unwrap().is_empty());
                client.batch_execute("UPDATE jobs SET status = 1").await.unwrap();
                let pushed = drain.settle(&mut other, seen).await.unwrap();
                assert_eq!(pushed.iter().map(|(_, parts)| &*parts[0]).collect::<Vec<_>>(), texts(&["1"]));
                client.batch_execute("UPDATE jobs SET status = 0 WHERE id = 2").await.unwrap();
                settled
            } else {
                let mut next = Redis::new(&server.url(), "jobs", None).unwrap();
                let replayed = next.replay().await.unwrap();
                drain.replayed(&mut next, replayed).await.unwrap()
            };
            let mut settled: Vec<_> = settled.into_iter().map(|(_, parts)| parts).collect();
            settled.sort();
            assert!(settled.iter().all(|parts| parts.len() == 3));
            assert_eq!(settled.iter().map(|parts| &*parts[0]).collect::<Vec<_>>(), texts(left));
        }
        assert_eq!(server.command(&["ZRANGE", "jobs", "0", "-1", "WITHSCORES"]), "2\n2\n3\n3");
        // Settled ones are not asked for again.
        client.batch_execute("UPDATE jobs SET status = 0").await.unwrap();
        let mut next = Redis::new(&server.url(), "jobs", None).unwrap();
        let replayed = next.replay().await.unwrap();
        assert_eq!(drain.replayed(&mut next, replayed).await.unwrap().len(), 2);
    }

    fn drain_of(database: &str) -> TableSet {
        let template = NewJob::new(&b""[..]);
        let set =
            SortedSet { key: "jobs".to_owned(), template, unit: Some(Unit::Seconds), is_named: true, is_needed: false };
        let rows = Foreign::new(database, "jobs", "id", "status", "1").unwrap();
        TableSet { set, rows, why_left: String::new(), passed: 0, lap: 0, has_taken: false }
    }

    /// Others move the ranks of members, so that one comes to stand among those that were passed.
    #[tokio::test]
    async fn a_drain_ends_when_it_finds_nothing_from_the_first_rank_on() {
        let (server, database) = (RedisServer::start(), PostgresServer::start());
        let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let stuck = 3 * i32::try_from(BATCH).unwrap();
        let ids = format!("generate_series(0, {}) id", stuck + 1);
        let table = format!("CREATE TABLE jobs AS SELECT id, (id >= {stuck})::int AS status FROM {ids}");
        client.batch_execute(&table).await.unwrap();
        let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
        let mut add = redis::cmd("ZADD");
        add.arg("jobs");
        (0..=stuck).for_each(|id| _ = add.arg(id).arg(id));
        let _: i32 = redis.ask(&add).await.unwrap();

        let mut drain = drain_of(&database.url());
        for expected in [stuck, stuck + 1] {
            let claimed = drain.claim(&mut redis, Step::Drain).await.unwrap().logged;
            let members: Vec<&[u8]> = claimed.iter().map(|(_, texts)| texts[0].as_slice()).collect();
            assert_eq!(members, [expected.to_string().as_bytes()]);
            server.command(&["ZREM", "jobs", "0"]);
            server.command(&["ZADD", "jobs", "700.5", &(stuck + 1).to_string()]);
        }
    }
}
