//! Sorted sets of the ids of rows in MariaDB and PostgreSQL.

use super::redis_source::{Adopt, OldSet, jobs_made, made, now_ms};
use crate::cli::server::Server;
use crate::cli::support::until;
use crate::inbox::database::Database;
use duetime_store::testing::RedisServer;
use std::collections::BTreeSet;
use tokio::runtime::Runtime;

const KEY: &str = "delay_queue_job";
const HOUR_S: u64 = 3_600;

/// A set, and a database with a table `order`, which only quotes make a name.
struct World {
    server: Server,
    redis: RedisServer,
    database: Database,
    runtime: Runtime,
    quote: char,
}

impl World {
    fn mysql() -> Self {
        Self::new('`', |runtime| runtime.block_on(Database::mysql()))
    }

    fn postgres() -> Self {
        Self::new('"', |runtime| runtime.block_on(Database::postgres()))
    }

    fn new(quote: char, open: impl FnOnce(&Runtime) -> Database) -> Self {
        let runtime = Runtime::new().unwrap();
        let database = open(&runtime);
        Self { server: Server::start(), redis: RedisServer::start(), database, runtime, quote }
    }

    /// Each `"` stands for the quote of the database.
    fn sql(&self, statement: &str) {
        let statement = statement.replace('"', &self.quote.to_string());
        self.runtime.block_on(self.database.run(&[&statement]));
    }

    /// Makes the table, with these rows of `id, status`.
    fn table(&self, kind: &str, rows: impl Iterator<Item = (String, u8)>) {
        self.sql(&format!(r#"CREATE TABLE "order" ("id" {kind} PRIMARY KEY, "status" INT NOT NULL)"#));
        let rows: Vec<String> = rows.map(|(id, status)| format!("('{id}', {status})")).collect();
        for some in rows.chunks(1_000) {
            self.sql(&format!(r#"INSERT INTO "order" VALUES {}"#, some.join(", ")));
        }
    }

    fn adopt(&self) -> Adopt<'_> {
        let rows = self.database.url();
        Adopt::new(&self.server, "table-set", &self.redis.url(), KEY).with(&["--rows", &rows, "--table", "order"])
    }

    fn old(&self) -> OldSet {
        OldSet::open(&self.redis.url(), KEY)
    }
}

fn members(ids: impl IntoIterator<Item = String>, score: u64) -> Vec<(Vec<u8>, f64)> {
    ids.into_iter().map(|id| (id.into_bytes(), score as f64)).collect()
}

/// Rows with the status are taken, even if their ids are large; rows without it stay.
fn only_rows_with_the_status_are_taken(world: &World) {
    let now_s = now_ms() / 1_000;
    let id = |n: u64| (9_007_199_254_740_000 + n).to_string();
    world.table("BIGINT", (0..1_500).map(|n| (id(n), u8::from(n % 3 == 0))));
    let mut old = world.old();
    old.add_all(&members((0..1_500).map(id), now_s - HOUR_S));
    // Without a row, and no ids at all.
    old.add_all(&members(["7".to_owned(), "0".to_owned(), "abc".to_owned(), format!("0{}", id(3))], now_s + HOUR_S));
    old.add(b"\xff' OR 1=1 -- ", now_s - 1);
    let adopt = world.adopt();
    let look = adopt.look();
    let part = &look["parts"][0];
    assert_eq!(
        [&part["due"], &part["later"], &part["left"]],
        [500, 0, 1_005].map(serde_json::Value::from).each_ref(),
        "{look}"
    );
    assert_eq!(part["why_left"], "1005 without a row in order with status = 1");
    assert!(look["notes"].to_string().contains("stop it first"), "{look}");
    let report = adopt.drain();
    assert_eq!((&report["adopted"], &report["there"][0]["left"]), (&500.into(), &1_005.into()), "{report}");
    let jobs = made(&world.server);
    let expected: BTreeSet<Vec<u8>> = (0..1_500).filter(|n| n % 3 == 0).map(|n| id(n).into_bytes()).collect();
    assert_eq!(jobs.iter().map(|job| job.member.clone()).collect::<BTreeSet<_>>(), expected);
    assert!(jobs.iter().all(|job| job.due_at == (now_s - HOUR_S) * 1_000));
    assert_eq!((jobs.len(), old.count(), old.claims()), (500, 1_005, 0));
    // Another status.
    world.sql(r#"UPDATE "order" SET "status" = 2 WHERE "status" = 0"#);
    assert_eq!(world.adopt().with(&["--status", "2"]).drain()["adopted"], 1_000);
    assert_eq!(old.count(), 5);
}

#[test]
fn only_rows_with_the_status_are_taken_in_mysql() {
    only_rows_with_the_status_are_taken(&World::mysql());
}

#[test]
fn only_rows_with_the_status_are_taken_in_postgres() {
    only_rows_with_the_status_are_taken(&World::postgres());
}

/// More of them than several pages have. A member that is due after them is taken at once, and one whose row changes is
/// found.
#[test]
fn due_members_without_a_row_hide_no_others() {
    let world = World::postgres();
    let now_s = now_ms() / 1_000;
    world.table("VARCHAR(40)", (0..3_000).map(|n| (format!("stuck-{n}"), 0)).chain([("fresh".to_owned(), 1)]));
    let mut old = world.old();
    old.add_all(&members((0..3_000).map(|n| format!("stuck-{n}")), now_s - HOUR_S));
    old.add(b"fresh", now_s - 1);
    let follower = world.adopt().follow();
    until("the one behind them is taken", || (jobs_made(&world.server) == 1).then_some(()));
    for n in [0, 1_499, 2_999] {
        world.sql(&format!(r#"UPDATE "order" SET "status" = 1 WHERE "id" = 'stuck-{n}'"#));
    }
    until("those whose rows change are taken", || (jobs_made(&world.server) == 4).then_some(()));
    // A row that is committed after its member was added.
    old.add(b"late", now_s - 2 * HOUR_S);
    let asked = old.calls("eval");
    until("it was seen without a row", || (old.calls("eval") > asked + 1).then_some(()));
    assert_eq!(old.count(), 2_998);
    world.sql(r#"INSERT INTO "order" VALUES ('late', 1)"#);
    until("it is taken", || (jobs_made(&world.server) == 5).then_some(()));
    // It does not spin: a page at each call, and about one call a second.
    let (asked, begin) = (old.calls("eval"), std::time::Instant::now());
    until("some calls", || (old.calls("eval") >= asked + 4).then_some(()));
    assert!(begin.elapsed() > std::time::Duration::from_secs(2), "{:?}", begin.elapsed());
    let report = follower.stop();
    assert_eq!((&report["claimed"], &report["there"][0]["left"]), (&5.into(), &2_997.into()), "{report}");
}

/// Members that are rescheduled or removed are not taken with their old scores.
#[test]
fn changes_by_the_old_code_reach_what_is_not_taken() {
    let world = World::mysql();
    let now_s = now_ms() / 1_000;
    world.table("INT", (0..600).map(|n| (n.to_string(), 1)));
    let mut old = world.old();
    old.add_all(&members((0..600).map(|n| n.to_string()), now_s + HOUR_S));
    let follower = world.adopt().follow();
    let (mut soon, mut removed) = (0, 0);
    for n in 0..600_u64 {
        let member = n.to_string();
        match n % 3 {
            0 => removed += u64::from(old.remove(member.as_bytes())),
            1 => soon += u64::from(!old.add(member.as_bytes(), now_s + n % 2)),
            _ => assert!(!old.add(member.as_bytes(), now_s + 2 * HOUR_S)),
        }
    }
    assert_eq!((soon, removed), (200, 200));
    until("what is due is taken", || (jobs_made(&world.server) == 200 && old.claims() == 0).then_some(()));
    follower.stop();
    assert_eq!(old.count(), 200);
    let report = world.adopt().drain();
    assert_eq!((&report["adopted"], old.count()), (&200.into(), 0), "{report}");
    for job in made(&world.server) {
        let n: u64 = job.key.unwrap().parse().unwrap();
        let score = if n % 3 == 1 { now_s + n % 2 } else { now_s + 2 * HOUR_S };
        assert_eq!(job.due_at, score * 1_000, "{}", job.job);
    }
}

/// Members that one takes move the ranks by which the others read.
#[test]
fn drains_at_once_leave_nothing() {
    let world = World::mysql();
    let now_s = now_ms() / 1_000;
    world.table("INT", (0..8_000).map(|n| (n.to_string(), u8::from(n % 2 == 0))));
    let mut old = world.old();
    old.add_all(&members((0..8_000).map(|n| n.to_string()), now_s + HOUR_S));
    let all = [0; 3].map(|_| world.adopt().spawn("--drain"));
    all.into_iter().for_each(|running| assert_eq!(running.wait().code, 0));
    let jobs = made(&world.server);
    assert_eq!((jobs.len(), old.count(), old.claims()), (4_000, 4_000, 0));
}

#[test]
fn a_table_that_cannot_be_read_is_refused() {
    let world = World::postgres();
    world.table("INT", std::iter::empty());
    let url = world.redis.url();
    let rows = world.database.url();
    let refusals: [(&[&str], i32, &str); 8] = [
        (&["--rows", &rows], 2, "--table"),
        (&["--rows", "redis://u:secret@h", "--table", "order"], 2, "`rows` must be a URL: mysql://"),
        (&["--rows", &rows, "--table", "none"], 2, "with the columns id and status, got \"none\" in postgres://"),
        (&["--rows", &rows, "--table", "order", "--id-column", "order_id"], 2, "with the columns order_id and status"),
        (&["--rows", &rows, "--table", "order; DROP TABLE order"], 2, "`table` must be a name"),
        (&["--rows", &rows, "--table", "order", "--status", "1' OR '1'='1"], 2, "`status` must be"),
        (
            &["--rows", &rows, "--table", "order", "--status", "active"],
            2,
            "a value of the column status, which is of the type",
        ),
        (&["--rows", "postgres://u@127.0.0.1:1/x", "--table", "order"], 75, "127.0.0.1:1"),
    ];
    for (options, code, expected) in refusals {
        let ran = Adopt::new(&world.server, "table-set", &url, KEY).with(options).run(&[]);
        assert!(ran.code == code && ran.err.contains(expected) && !ran.err.contains("secret"), "{options:?}: {ran:?}");
    }
    let look = world.adopt().look();
    assert!(look["why"].as_str().unwrap().starts_with("an empty sorted set"), "{look}");
}
