//! The command and Redis are killed, over and over, and each job of an old queue is in one place.

use super::framework::{kills, seeded};
use super::old::{LOCKED_SET, MESSAGE_QUEUE, OF_BULLMQ, OF_LARAVEL, OF_SIDEKIQ, Old, Worker, World, ZSET, one_of};
use super::redis_source::{Adopt, OldSet, Running, made, now_ms};
use crate::cli::server::Server;
use crate::cli::support::{Place, until};
use crate::common::Random;
use redis::Connection;

/// The point at which a command is killed.
enum Point {
    /// This many of the jobs that it takes are left.
    Left(u64),
    /// It has called a command of Redis this often.
    Called(&'static str, u64),
}

impl Point {
    /// Somewhere within a step.
    fn any(world: &World, random: &mut Random, log: &mut OldSet, step: &str) -> Self {
        // A follower with nothing to do calls neither.
        if step == "--drain" && random.percent(40) {
            let name = one_of(&["hdel", "hkeys"], random);
            return Self::Called(name, log.calls(name) + random.within(1..5));
        }
        let left = world.left(&mut world.connect(), step);
        let stays = if step == "--drain" { world.stays() } else { 0 };
        Self::Left(random.within(stays..left + 1))
    }
}

/// Continues the old code until a command has reached that point, or its end.
fn go_on(
    world: &mut World,
    random: &mut Random,
    worker: &mut Option<Worker>,
    ran: &mut Vec<String>,
    (running, step): (&mut Running, &str),
    point: &Point,
) {
    let (mut connection, mut log): (Connection, OldSet) = (world.connect(), world.open());
    until("progress, or the end", || {
        if random.percent(20) {
            world.cancel(&mut connection, random);
        }
        if random.percent(20) {
            ran.extend(worker.iter_mut().flat_map(|work| work()));
        }
        let is_there = match point {
            Point::Left(left) => world.left(&mut connection, step) <= *left,
            Point::Called(name, calls) => log.calls(name) >= *calls,
        };
        (is_there || running.has_ended()).then_some(())
    });
}

/// Takes the rest, and looks for each job: once in the server, with its due time, or once run or cancelled by the old code.
fn account(world: &World, ran: &[String]) {
    let ran_all = world.adopt().with(world.old.stopped).run(&world.adopt().step("--drain"));
    assert_eq!(ran_all.code, 0, "{ran_all:?}");
    let mut log = world.open();
    assert_eq!(log.claims(), 0, "no claim is left");
    let mut connection = world.connect();
    assert_eq!(world.left(&mut connection, "--drain"), world.stays());
    let jobs = made(&world.server);
    let (mut put, cancelled) = (world.put.clone(), &world.cancelled);
    println!("{} jobs: {} adopted, {} run there, {} cancelled", put.len(), jobs.len(), ran.len(), cancelled.len());
    for job in jobs {
        let payload = String::from_utf8(job.member).unwrap();
        let due = put.remove(&payload).unwrap_or_else(|| panic!("twice, or never put: {}", job.job));
        // Jobs that were due may have been moved to a list meanwhile.
        let is_later = due > now_ms();
        assert!(if is_later { job.due_at == due } else { job.due_at >= due }, "{due}: {}", job.job);
    }
    for job in ran.iter().chain(cancelled) {
        assert!(put.remove(job).is_some(), "twice, or adopted as well: {job}");
    }
    assert!(put.is_empty(), "{} are lost, such as {:?}", put.len(), put.iter().next());
}

/// Kills the command over and over, while the old code goes on. `DUETIME_ADOPT_KILLS` is another number of kills.
pub(super) fn kill_the_command(old: &'static Old, count: u64) {
    let mut random = seeded();
    let (mut world, mut ran) = (World::new(old, false), Vec::new());
    let (mut worker, mut log) = (world.worker(), world.open());
    for _ in 0..kills(count) {
        world.feed(&mut random);
        let step = if random.percent(60) { "--drain" } else { "--follow" };
        let point = Point::any(&world, &mut random, &mut log, step);
        let mut running = world.adopt().spawn(step);
        go_on(&mut world, &mut random, &mut worker, &mut ran, (&mut running, step), &point);
        // Now and then two at once.
        let other = random.percent(25).then(|| world.adopt().spawn("--drain"));
        running.kill();
        if let Some(mut other) = other {
            let point = Point::any(&world, &mut random, &mut log, "--drain");
            go_on(&mut world, &mut random, &mut worker, &mut ran, (&mut other, "--drain"), &point);
            other.kill();
        }
    }
    account(&world, &ran);
}

/// Kills Redis over and over. An answer of it means that its disk has it.
pub(super) fn kill_redis(old: &'static Old, count: u64) {
    let mut random = seeded();
    let (mut world, mut ran) = (World::new(old, true), Vec::new());
    for round in 0..kills(count) {
        world.feed(&mut random);
        let (mut worker, mut log) = (world.worker(), world.open());
        let point = Point::any(&world, &mut random, &mut log, "--drain");
        let mut running = world.adopt().spawn("--drain");
        go_on(&mut world, &mut random, &mut worker, &mut ran, (&mut running, "--drain"), &point);
        // Either both die, or the command finds it again.
        let both = round % 2 == 0;
        world.redis.kill();
        if both {
            running.kill();
            world.redis.start_again();
        } else {
            world.redis.start_again();
            let ended = running.wait();
            // Before it has begun it does not wait.
            let has_begun = !ended.out.is_empty();
            assert_eq!(ended.code, if has_begun { 0 } else { 75 }, "{ended:?}");
        }
    }
    account(&world, &ran);
}

/// Tests of all layouts, with this many kills of the command, and of Redis.
macro_rules! each_dies {
    ($kills:expr, $redis_kills:expr) => {
        $crate::adopt::dies::each_dies! { $kills, $redis_kills;
            zset ZSET, locked_set LOCKED_SET, table_set TABLE_SET, message_queue MESSAGE_QUEUE,
            laravel OF_LARAVEL, sidekiq OF_SIDEKIQ, bullmq OF_BULLMQ
        }
    };
    ($kills:expr, $redis_kills:expr; $($name:ident $old:ident),*) => {
        $(mod $name {
            use crate::adopt::{dies, old};

            #[test]
            fn kill_of_the_command_beside_the_old_code_loses_and_doubles_nothing() {
                dies::kill_the_command(&old::$old, $kills);
            }

            #[test]
            fn kill_of_redis_with_its_log_loses_and_doubles_nothing() {
                dies::kill_redis(&old::$old, $redis_kills);
            }
        })*
    };
}
pub(super) use each_dies;

each_dies!(16, 8);

#[test]
fn claims_wait_while_there_is_no_server() {
    let (mut world, mut random) = (World::new(&ZSET, false), Random::new(1));
    world.feed(&mut random);
    let mut log = world.open();
    let mut running = world.adopt().spawn("--drain");
    until("some are claimed", || (log.calls("hset") > 0 || running.has_ended()).then_some(()));
    running.kill();
    let mut process = world.server.child.take().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    let ran = world.adopt().run(&world.adopt().step("--drain"));
    assert_eq!(ran.code, 75, "nobody to push to: {ran:?}");
    world.server = Server::start_in(std::mem::replace(&mut world.server.place, Place::new()), &[]);
    account(&world, &[]);
}

/// One takes what the other leaves, and none takes what the other has.
#[test]
fn two_commands_at_once_take_each_job_of_bullmq_once() {
    let (mut world, mut random) = (World::new(&OF_BULLMQ, false), Random::new(7));
    (0..12).for_each(|_| world.feed(&mut random));
    for running in [world.adopt().spawn("--drain"), world.adopt().spawn("--drain")] {
        let ran = running.wait();
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    account(&world, &[]);
}

/// A user of Redis who may do everything except remove members, or claims: nothing is claimed, however often it is tried.
#[test]
fn nothing_is_claimed_that_cannot_be_removed() {
    for old in [&ZSET, &LOCKED_SET, &MESSAGE_QUEUE, &OF_LARAVEL, &OF_SIDEKIQ, &OF_BULLMQ] {
        let (mut world, mut random) = (World::new(old, false), Random::new(1));
        world.feed(&mut random);
        for missing in [&["-zrem", "-lrem", "-ltrim"][..], &["-hdel"]] {
            let rights =
                [&["ACL", "SETUSER", "adopter", "reset", "on", ">secret", "~*", "&*", "+@all"], missing].concat();
            world.redis.command(&rights);
            let from = world.redis.url().replace("redis://", "redis://adopter:secret@");
            let adopt = Adopt::from_words(&world.server, &from, old.source);
            for _ in 0..2 {
                let ran = adopt.run(&adopt.step("--drain"));
                assert!(ran.code == 1 && ran.err.contains("can't run this command"), "{ran:?}");
                assert_eq!((world.open().claims(), made(&world.server).len()), (0, 0));
            }
        }
        account(&world, &[]);
    }
}
