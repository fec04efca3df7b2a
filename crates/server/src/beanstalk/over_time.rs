//! Rights over time: a token is revoked, expires or is narrowed while a command waits, while replies wait to be read, while a
//! body arrives, or while jobs are held.

use super::command::words;
use super::limits::AUTH_TIME_MAX;
use super::piped::{Bench, Talk};
use crate::access::{Secret, hex};
use duetime_core::api::{Span, Timestamp};
use duetime_core::limits::PAGE_JOBS_MAX;
use duetime_core::testing::mortal::When;
use duetime_core::testing::tokio_clock::WALL_START_MS;
use duetime_core::{Due, JobId, NewJob};
use std::time::Duration;
use tempfile::TempDir;

/// The lifetime of the token.
const LIFE: Duration = Duration::from_secs(1_000);

/// How a token loses its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Revoked,
    Expired,
    /// It keeps its rights for other tubes.
    Narrowed,
}

const LOSSES: [Loss; 3] = [Loss::Revoked, Loss::Expired, Loss::Narrowed];

/// A server, an administrator, and a client whose token is about to lose its rights to the tube `orders`.
struct World {
    bench: Bench,
    root: Talk,
    talk: Talk,
    folder: TempDir,
    secrets: [Secret; 2],
}

impl World {
    async fn new() -> Self {
        let (folder, secrets) = (tempfile::tempdir().unwrap(), [Secret::new().unwrap(), Secret::new().unwrap()]);
        write(&folder, &secrets, Some("admin:orders"));
        let bench = Bench::with_tokens(Some(folder.path().join("tokens.toml"))).await;
        let (mut root, mut talk) = (bench.open(), bench.open());
        for (talk, secret) in [(&mut root, &secrets[0]), (&mut talk, &secrets[1])] {
            assert_eq!(talk.ask(&format!("auth {}", secret.reveal())).await, "AUTHENTICATED");
            assert_eq!(talk.ask("use orders").await, "USING orders");
            assert_eq!(talk.ask("watch orders").await, "WATCHING 2");
            assert_eq!(talk.ask("ignore default").await, "WATCHING 1");
        }
        Self { bench, root, talk, folder, secrets }
    }

    /// Takes the rights away, and returns the word for it.
    async fn lose(&mut self, loss: Loss) -> &'static str {
        match loss {
            Loss::Revoked => write(&self.folder, &self.secrets, None),
            Loss::Narrowed => write(&self.folder, &self.secrets, Some("admin:mail.*")),
            Loss::Expired => self.bench.clock.step_wall(i64::try_from(LIFE.as_millis()).unwrap()),
        }
        // The server reads the file every second, and the clock moves once nothing else can.
        tokio::time::sleep(Duration::from_secs(2)).await;
        if loss == Loss::Narrowed { "FORBIDDEN" } else { "UNAUTHENTICATED" }
    }

    /// The times that a job was handed out, as clients count them.
    async fn reserves(&mut self, id: &str) -> String {
        assert!(self.root.ask(&format!("stats-job {id}")).await.starts_with("OK "));
        let mut reserves = None;
        loop {
            match self.root.line().await {
                line if line.is_empty() => return reserves.unwrap(),
                line => reserves = reserves.or(line.strip_prefix("reserves: ").map(str::to_owned)),
            }
        }
    }
}

fn write(folder: &TempDir, [root, ours]: &[Secret; 2], allow: Option<&str>) {
    let mut text = format!("[[token]]\nname = 'root'\nsha256 = '{}'\nallow = ['admin']\n", hex(&root.hash()));
    if let Some(allow) = allow {
        let (hash, expires) = (hex(&ours.hash()), Timestamp(WALL_START_MS + LIFE.as_millis() as u64));
        text += &format!("[[token]]\nname = 'ours'\nsha256 = '{hash}'\nallow = ['{allow}']\nexpires = '{expires}'\n");
    }
    // In one step: the server may read it just now.
    let (new, file) = (folder.path().join("new"), folder.path().join("tokens.toml"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// What a command is answered once its client has the right to other tubes only; the job is held by the client. A new command
/// must be added here.
fn when_narrowed(word: &str) -> (&'static str, &'static str) {
    match word {
        "put" => ("put 0 0 60 1\r\nx", "FORBIDDEN"),
        "use" => ("use orders", "USING orders"),
        "watch" => ("watch orders", "WATCHING 1"),
        "ignore" => ("ignore mail.a", "WATCHING 1"),
        "reserve" => ("reserve", "FORBIDDEN"),
        "reserve-with-timeout" => ("reserve-with-timeout 5", "FORBIDDEN"),
        "reserve-job" => ("reserve-job ID", "NOT_FOUND"),
        "delete" => ("delete ID", "NOT_FOUND"),
        "release" => ("release ID 0 0", "NOT_FOUND"),
        "bury" => ("bury ID 0", "NOT_FOUND"),
        "touch" => ("touch ID", "NOT_FOUND"),
        "peek" => ("peek ID", "NOT_FOUND"),
        "peek-ready" => ("peek-ready", "FORBIDDEN"),
        "peek-delayed" => ("peek-delayed", "FORBIDDEN"),
        "peek-buried" => ("peek-buried", "FORBIDDEN"),
        "kick" => ("kick 1", "FORBIDDEN"),
        "kick-job" => ("kick-job ID", "NOT_FOUND"),
        "stats-job" => ("stats-job ID", "NOT_FOUND"),
        "stats-tube" => ("stats-tube orders", "NOT_FOUND"),
        "stats" => ("stats", "FORBIDDEN"),
        "list-tube-used" => ("list-tube-used", "USING orders"),
        "pause-tube" => ("pause-tube orders 5", "FORBIDDEN"),
        // Names of tubes that the client sent.
        "list-tubes" => ("list-tubes", "OK "),
        "list-tubes-watched" => ("list-tubes-watched", "OK "),
        "auth" => ("auth wrong", "UNAUTHENTICATED"),
        "quit" => ("quit", ""),
        other => panic!("say how {other} is answered to a client that has lost its rights"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_does_nothing_with_rights_that_it_has_lost() {
    for loss in LOSSES {
        for word in words() {
            let mut world = World::new().await;
            let id = world.talk.put(1).await;
            assert_eq!(world.talk.reserve().await, id);
            let (line, narrowed) = when_narrowed(word);
            let refused = world.lose(loss).await;
            let answer = world.talk.ask(&line.replace("ID", &id)).await;
            let expected = if loss == Loss::Narrowed || line == "quit" { narrowed } else { refused };
            assert!(
                answer.starts_with(expected) && answer.is_empty() == expected.is_empty(),
                "{loss:?} {line}: {answer}"
            );
            if line != "quit" {
                assert_eq!(world.root.ask(&format!("delete {id}")).await, "NOT_FOUND", "{loss:?} {line}: it is held");
            }
        }
    }
}

/// Such connections stayed open until their clients closed them, and their jobs leased.
#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_some_seconds_after_its_token_is_lost() {
    for loss in LOSSES {
        let mut world = World::new().await;
        let id = world.talk.put(1).await;
        assert_eq!(world.talk.reserve().await, id);
        world.lose(loss).await;
        tokio::time::sleep(AUTH_TIME_MAX).await;
        if loss == Loss::Narrowed {
            assert_eq!(world.talk.ask("kick 1").await, "FORBIDDEN");
            continue;
        }
        assert_eq!(world.talk.line().await, "", "{loss:?}: it is closed");
        assert_eq!(world.root.reserve().await, id, "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_shows_a_new_token_in_time_stays() {
    let mut world = World::new().await;
    let auth = format!("auth {}", world.secrets[0].reveal());
    for _ in 0..2 {
        world.lose(Loss::Revoked).await;
        assert_eq!(world.talk.ask("kick 1").await, "UNAUTHENTICATED");
        assert_eq!(world.talk.ask(&auth).await, "AUTHENTICATED");
        tokio::time::sleep(10 * AUTH_TIME_MAX).await;
        assert_eq!(world.talk.ask("kick 1").await, "KICKED 0");
        write(&world.folder, &world.secrets, Some("admin:orders"));
        tokio::time::sleep(AUTH_TIME_MAX).await;
        assert_eq!(world.talk.ask(&format!("auth {}", world.secrets[1].reveal())).await, "AUTHENTICATED");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reserve_that_waits_ends_with_the_right() {
    for loss in LOSSES {
        for line in ["reserve", "reserve-with-timeout 100000"] {
            let mut world = World::new().await;
            world.talk.send(format!("{line}\r\n").as_bytes()).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let refused = world.lose(loss).await;
            let told = tokio::time::timeout(Duration::from_secs(2), world.talk.line()).await;
            assert_eq!(told.as_deref(), Ok(refused), "{loss:?} {line}");
            let id = world.root.put(1).await;
            assert_eq!(world.root.reserve().await, id);
            assert_eq!(world.reserves(&id).await, "1");
        }
    }
}

/// The job comes just after the token has expired, before anything else has noticed that.
#[tokio::test(start_paused = true)]
async fn a_job_for_a_client_that_has_just_lost_its_right_goes_back_uncounted() {
    let mut world = World::new().await;
    world.talk.send(b"reserve\r\n").await;
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    world.bench.clock.step_wall(i64::try_from(LIFE.as_millis()).unwrap());
    let id = world.root.put(1).await;
    assert_eq!(world.talk.line().await, "UNAUTHENTICATED");
    assert_eq!(world.root.reserve().await, id);
    assert_eq!(world.reserves(&id).await, "1");
}

#[tokio::test(start_paused = true)]
async fn reserves_sent_earlier_get_nothing_once_the_right_is_lost() {
    const JOBS: usize = 300;
    for loss in LOSSES {
        let mut world = World::new().await;
        for _ in 0..JOBS {
            world.root.put(30_000).await;
        }
        for _ in 0..JOBS {
            world.talk.send(b"reserve\r\n").await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let refused = world.lose(loss).await;
        let (mut got, mut refusals) = (0, 0);
        for _ in 0..JOBS {
            match world.talk.line().await {
                line if line == refused => refusals += 1,
                line => {
                    world.talk.reserved(&line).await;
                    got += 1;
                }
            }
        }
        // Replies of one megabyte were on their way.
        assert!((1..=40).contains(&got) && got + refusals == JOBS, "{loss:?}: {got} jobs, {refusals} refusals");
        let counts = world.bench.engine.queue("orders").await.unwrap().counts;
        assert_eq!((counts.running, counts.ready), (got as u64, (JOBS - got) as u64), "{loss:?}");
        let id = world.root.reserve().await;
        assert_eq!(world.reserves(&id).await, "1", "{loss:?}: it goes back uncounted");
    }
}

/// The right is lost while the first page of jobs is kicked.
#[tokio::test(start_paused = true)]
async fn a_kick_of_many_ends_with_the_right() {
    const JOBS: usize = 2 * PAGE_JOBS_MAX + 1;
    for loss in LOSSES {
        let mut world = World::new().await;
        let delayed = NewJob { queue: "orders".into(), due: Due::After(Span(86_400_000)), ..NewJob::new(*b"x") };
        for result in world.bench.engine.push(vec![delayed; JOBS]).await.unwrap() {
            result.unwrap();
        }
        world.bench.life.freeze_at("edit_ledger", When::After, Duration::from_secs(5));
        world.talk.send(format!("kick {JOBS}\r\n").as_bytes()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let refused = world.lose(loss).await;
        assert_eq!(world.talk.line().await, format!("KICKED {PAGE_JOBS_MAX}"), "{loss:?}");
        assert_eq!(world.talk.ask("kick 1").await, refused, "{loss:?}");
        let counts = world.bench.engine.queue("orders").await.unwrap().counts;
        let expected = (PAGE_JOBS_MAX as u64, (JOBS - PAGE_JOBS_MAX) as u64);
        assert_eq!((counts.ready, counts.scheduled), expected, "{loss:?}");
    }
}

/// The right is lost while the job that the client named is reserved.
#[tokio::test(start_paused = true)]
async fn a_named_job_is_not_handed_out_once_the_right_is_lost() {
    for loss in LOSSES {
        let mut world = World::new().await;
        let put = world.root.ask("put 0 86400 60 1\r\nx").await;
        let id = put.strip_prefix("INSERTED ").unwrap();
        world.bench.life.freeze_at("lease", When::Before, Duration::from_secs(5));
        world.talk.send(format!("reserve-job {id}\r\n").as_bytes()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.lose(loss).await;
        assert_eq!(world.talk.line().await, "NOT_FOUND", "{loss:?}");
        let job = world.bench.engine.job(JobId::new(id.parse().unwrap()).unwrap()).await.unwrap();
        assert_eq!(job.attempt, 0, "{loss:?}: it goes back uncounted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_arrives_after_the_right_is_lost_is_no_job() {
    for loss in LOSSES {
        let mut world = World::new().await;
        world.talk.send(b"put 0 0 60 4\r\nab").await;
        let refused = world.lose(loss).await;
        world.talk.send(b"cd\r\n").await;
        assert_eq!(world.talk.line().await, refused, "{loss:?}");
        assert_eq!(world.root.ask("peek-ready").await, "NOT_FOUND");
    }
}

/// Also of those that are carried out together.
#[tokio::test(start_paused = true)]
async fn each_command_counts_for_the_rate() {
    for line in ["delete 1", "reserve-with-timeout 0", "put 0 0 60 1\r\nx"] {
        let mut world = World::new().await;
        let secret = Secret::new().unwrap();
        let text = format!(
            "[[token]]\nname = 'slow'\nsha256 = '{}'\nallow = ['admin']\nrate = '1/s,burst=3'\n",
            hex(&secret.hash())
        );
        std::fs::write(world.folder.path().join("tokens.toml"), text).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut talk = world.bench.open();
        assert_eq!(talk.ask(&format!("auth {}", secret.reveal())).await, "AUTHENTICATED");
        talk.send(format!("{line}\r\n").repeat(5).as_bytes()).await;
        for n in 0..5 {
            let answer = talk.line().await;
            assert_eq!(answer == "TOO_MANY_REQUESTS", n >= 3, "{line}, number {n}: {answer}");
        }
        assert_eq!(world.talk.ask("list-tube-used").await, "UNAUTHENTICATED");
    }
}

/// Leases for longer than twelve hours are renewed for the client.
#[tokio::test(start_paused = true)]
async fn a_lease_is_not_renewed_for_a_client_that_has_lost_its_right() {
    let mut world = World::new().await;
    let put = world.root.ask("put 0 0 100000 1\r\nx").await;
    let id = put.strip_prefix("INSERTED ").unwrap();
    assert_eq!(world.talk.reserve().await, id);
    world.lose(Loss::Narrowed).await;
    tokio::time::sleep(Duration::from_secs(13 * 3_600)).await;
    assert_eq!(world.root.reserve().await, id);
}
