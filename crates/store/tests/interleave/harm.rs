//! Faults that are injected into Redis and the ledger.

use crate::world::World;
use duetime_core::ports::{BROKER, Broker as _, COMPARED, Registry as _};
use duetime_core::testing::Random;
use duetime_core::testing::account::Loss;
use duetime_store::redis::Redis;
use duetime_store::testing::RedisServer;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Between two misfortunes, in milliseconds.
const RESTS_MS: [u64; 3] = [300, 800, 2_500];
/// How far a clock is set, in milliseconds.
const STEP_MS: u64 = 20_000;
/// How long outcomes pile up, and then leases that end.
const PILES_UP: [Duration; 2] = [Duration::from_millis(1_500), Duration::from_millis(2_700)];
/// How long a server that fell back is compared with the ledger while links fail, then while they do not, then while users ask for
/// nothing more. A link that delays a quarter of the commands, or any on a busy machine, carries fewer than its users send, so
/// only the last has a bound in time.
const COMPARED_WITHIN: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(20), Duration::from_secs(60)];
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Injects faults for this long.
pub(crate) async fn harm(world: &World, broker: &Redis, time: Duration, mut random: Random) {
    let end = Instant::now() + time;
    let rest_ms = *random.of(&RESTS_MS);
    // Alone it loses everything, and much that is worth a look with it.
    let losses = if world.ledger.is_some() { 40 } else { *random.of(&[0, 0, 10]) };
    while Instant::now() < end {
        sleep(Duration::from_millis(random.within(0..rest_ms))).await;
        match random.within(0..100) {
            dice if dice < losses / 2 => flush(world, &mut random).await,
            dice if dice < losses => fall_back(world, broker, &mut random).await,
            40..50 => {
                let now = world.clock.at().mono;
                set_clock(world, &mut random);
                world.account().lost(Loss::ClockSet, now, world.clock.at().mono + 1);
            }
            50..65 => {
                let ms = random.within(1..4_000);
                world.log(&format!("Redis stands still for {ms} ms"));
                world.account().count("freezes");
                world.redis().freeze();
                sleep(Duration::from_millis(ms)).await;
                world.redis().thaw();
            }
            65..72 => {
                let Some(ledger) = &world.ledger else { continue };
                let ms = random.within(1..3_000);
                world.log(&format!("the ledger is away for {ms} ms"));
                world.account().count("absences of the ledger");
                ledger.set_away(true);
                sleep(Duration::from_millis(ms)).await;
                ledger.set_away(false);
            }
            _ => {}
        }
    }
}

/// Makes replies long: outcomes wait for the ledger, then Redis stands still for longer than any lease.
pub(crate) async fn pile_up(world: &World) {
    let [outcomes, leases] = PILES_UP;
    if let Some(ledger) = &world.ledger {
        world.log("outcomes pile up");
        ledger.set_away(true);
        sleep(outcomes).await;
        ledger.set_away(false);
    }
    world.log("leases end");
    world.redis().freeze();
    sleep(leases).await;
    world.redis().thaw();
}

/// All data is gone, and sometimes the new server has another clock.
async fn flush(world: &World, random: &mut Random) {
    world.log("flush");
    world.account().count("flushes");
    let begin = world.clock.at().mono;
    world.redis().command(&["FLUSHALL"]);
    let is_set = random.percent(40);
    if is_set {
        set_clock(world, random);
    }
    let end = world.clock.at().mono + 1;
    world.account().lost(Loss::Emptied, begin, end);
    if is_set {
        world.account().lost(Loss::ClockSet, begin, end);
    }
}

fn set_clock(world: &World, random: &mut Random) {
    let off_ms = random.within(0..2 * STEP_MS).cast_signed() - STEP_MS.cast_signed();
    world.log(&format!("the clock of Redis is off by {off_ms} ms"));
    world.account().count("clocks set");
    world.redis().set_clock(off_ms);
    world.clock.set(off_ms);
}

/// A server that takes over lacks what happened of late.
async fn fall_back(world: &World, broker: &Redis, random: &mut Random) {
    let begin = world.clock.at().mono;
    world.redis().command(&["SAVE"]);
    let ms = random.within(0..1_500);
    sleep(Duration::from_millis(ms)).await;
    world.log(&format!("Redis falls back by {ms} ms"));
    world.account().count("failovers");
    let redis = world.redis.clone();
    let again = move || {
        let mut redis = redis.lock().expect("no panic under this lock");
        redis.kill();
        RedisServer::start_again(&mut redis);
    };
    tokio::task::spawn_blocking(again).await.expect("a server");
    let compared = async {
        let Some(ledger) = &world.ledger else { return };
        loop {
            let document = ledger.document(BROKER, COMPARED).await.ok().flatten();
            if let (Some(document), Ok(incarnation)) = (document, broker.incarnation().await)
                && document.body == incarnation
            {
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    };
    tokio::pin!(compared);
    let [failing, busy, calm] = COMPARED_WITHIN;
    if timeout(failing, &mut compared).await.is_err() {
        world.log("the links are calm until Redis is compared with the ledger");
        world.set_calm(true);
        if timeout(busy, &mut compared).await.is_err() {
            world.log("users are calm from now on");
            world.field.be_calm();
            if timeout(calm, compared).await.is_err() {
                world.account().blame("a Redis that fell back was not compared with the ledger".into());
            }
        }
        world.set_calm(false);
    }
    world.account().lost(Loss::FellBack, begin, world.clock.at().mono);
}
