//! Faults that are injected into servers and stores.

use crate::round::Round;
use crate::store::{Broker, BrokerKind};
use duetime_core::testing::Random;
use duetime_core::testing::account::Loss;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two misfortunes, in milliseconds.
const RESTS_MS: [u64; 3] = [300, 1_000, 3_000];
/// How far a clock is set, in milliseconds.
const STEP_MS: u64 = 20_000;
/// How much of its master's acknowledged writes a replica may lack, in milliseconds.
const BEHIND_MS: u64 = 2_000;
/// How long jobs that a failover brought back may run, until they were compared with the ledger.
const COMPARED_MS: u64 = 25_000;
/// How long before the last acknowledged write a lease must have been granted to be on disk, in milliseconds.
const LAST_INSTANT_MS: u64 = 100;

/// How long a server's command may be under way, in milliseconds.
const LATE_MS: u64 = 4_000;

/// Pending writes are done within this time after there is room again, in milliseconds.
const WRITTEN_MS: u64 = 3_000;

#[derive(Clone, Copy, Debug)]
enum Harm {
    KillServer,
    KillRedis,
    KillLedger,
    FailOver,
    Flush,
    Freeze,
    FillDisk,
    FillRedis,
    SetClock,
    Cut,
}

/// Injects faults for this long.
pub(crate) async fn harm(round: &Round, time: Duration, mut random: Random) {
    let end = Instant::now() + time;
    let rest_ms = *random.of(&RESTS_MS);
    let harms = possible(round);
    while Instant::now() < end {
        sleep(Duration::from_millis(random.within(0..rest_ms))).await;
        let harm = *random.of(&harms);
        do_harm(round, harm, &mut random).await;
    }
}

/// Frequent faults are listed several times.
fn possible(round: &Round) -> Vec<Harm> {
    use Harm::*;
    let has_ledger = round.kind.ledger.is_some();
    let mut harms = match round.kind.broker {
        BrokerKind::File => vec![KillServer, KillServer, KillServer, KillServer, FillDisk, SetClock],
        BrokerKind::Redis => vec![KillServer, KillServer, KillRedis, Freeze, FillRedis, SetClock, Cut],
        BrokerKind::Sentinel | BrokerKind::Cluster => vec![KillServer, FailOver, FailOver, FillRedis, Cut],
    };
    if has_ledger {
        harms.extend([Flush, Flush, KillLedger]);
    }
    harms
}

async fn do_harm(round: &Round, harm: Harm, random: &mut Random) {
    let begin = round.mono();
    match harm {
        Harm::KillServer => {
            let server = random.of(&round.servers).clone();
            tokio::task::spawn_blocking(move || server.kill()).await.unwrap();
            round.count("servers killed");
            if round.kind.broker == BrokerKind::File {
                let full = round.full.lock().unwrap().filter(|(_, end)| begin < end + WRITTEN_MS);
                let last = full.map_or(round.last_write.mono(), |(begin, _)| begin);
                round.lost(Loss::Killed, last.saturating_sub(LAST_INSTANT_MS));
            }
        }
        Harm::KillRedis => {
            round.with_store(|store| {
                if let Broker::Redis(redis) = &mut store.broker {
                    redis.kill();
                    redis.start_again();
                }
            });
            round.count("stores killed");
            if round.kind.ledger.is_some() {
                round.lost(Loss::Emptied, begin);
            }
        }
        Harm::KillLedger => {
            round.with_store(|store| store.kill_ledger());
            round.count("stores killed");
        }
        Harm::FailOver => {
            let which = random.within(0..3) as usize;
            let has_failed = round.with_store(|store| {
                let can = store.can_fail_over();
                if can {
                    store.fail_over(which);
                }
                can
            });
            if has_failed {
                round.count("failovers");
                round.lost_until(Loss::FellBack, begin.saturating_sub(BEHIND_MS), round.mono() + COMPARED_MS);
            }
        }
        Harm::Flush => {
            round.with_store(|store| {
                for redis in store.redis() {
                    // A replica refuses it.
                    let _ = redis.try_command(&["FLUSHALL"]);
                }
            });
            round.count("flushes");
            round.lost(Loss::Emptied, begin);
            if random.percent(30) {
                set_clock(round, random);
                round.lost(Loss::ClockSet, begin);
            }
        }
        Harm::Freeze => {
            let ms = random.within(10..3_000);
            round.with_store(|store| {
                if let Broker::Redis(redis) = &mut store.broker {
                    redis.freeze();
                    std::thread::sleep(Duration::from_millis(ms));
                    redis.thaw();
                }
            });
            round.count("freezes");
        }
        Harm::FillDisk => {
            let ms = random.within(10..3_000);
            let is_full = round.with_store(|store| {
                let Broker::File(disk, _) = &store.broker else { return false };
                let is_full = disk.fill();
                std::thread::sleep(Duration::from_millis(ms));
                disk.make_room();
                is_full
            });
            if is_full {
                round.count("full disks");
                let mut full = round.full.lock().unwrap();
                // Writes that failed the last time may still be pending.
                let since = full.filter(|(_, end)| begin < end + WRITTEN_MS).map_or(begin, |(since, _)| since);
                *full = Some((since, round.mono()));
            }
        }
        Harm::FillRedis => {
            let ms = random.within(10..2_000);
            let has_ledger = round.kind.ledger.is_some();
            let before = if has_ledger { None } else { Some(round.read().await) };
            round.with_store(|store| {
                let set = |bytes: &str| {
                    for redis in store.redis() {
                        let _ = redis.try_command(&["CONFIG", "SET", "maxmemory", bytes]);
                    }
                };
                set("1");
                std::thread::sleep(Duration::from_millis(ms));
                set("0");
            });
            round.count("full disks");
            if let Some((call, records)) = before {
                // The server that does it may say so later: its call is still under way.
                round.dropped(call, records, round.mono() + LATE_MS);
                if round.has_dropped_records().await {
                    round.count("times that records were dropped");
                }
            }
        }
        Harm::SetClock => {
            set_clock(round, random);
            round.lost(Loss::ClockSet, begin);
        }
        Harm::Cut => {
            round.with_store(|store| {
                for redis in store.redis() {
                    let _ = redis.try_command(&["CLIENT", "KILL", "TYPE", "normal"]);
                }
            });
            round.count("connections cut");
        }
    }
}

fn set_clock(round: &Round, random: &mut Random) {
    let off_ms = random.within(0..2 * STEP_MS).cast_signed() - STEP_MS.cast_signed();
    if round.with_store(|store| store.set_clock(off_ms)) {
        round.set_off(off_ms);
        round.count("clocks set");
    }
}
