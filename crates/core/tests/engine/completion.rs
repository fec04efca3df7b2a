//! Work that runs to completion has a task, and only one.

use super::fixture::job;
use duetime_core::engine::{Options, Stores, uninterrupted};
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Clock, Engine, Millis};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use tokio::task;

/// Knows which tasks have read it.
#[derive(Debug)]
struct Watched {
    clock: TokioClock,
    readers: Mutex<HashSet<task::Id>>,
}

impl Clock for Watched {
    fn wall(&self) -> Millis {
        self.readers.lock().unwrap().extend(task::try_id());
        self.clock.wall()
    }

    fn mono(&self) -> Millis {
        self.clock.mono()
    }
}

#[tokio::test(start_paused = true)]
async fn what_runs_to_completion_needs_no_second_task() {
    let clock = Arc::new(Watched { clock: TokioClock::new(), readers: Mutex::default() });
    let stores = Stores::one_process(clock.clone(), Arc::new(ModelLedger::default()));
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    for completes in [false, true] {
        let (engine, clock) = (engine.clone(), clock.clone());
        let caller = async move {
            clock.readers.lock().unwrap().clear();
            engine.push(vec![job()]).await.unwrap().remove(0).unwrap();
            assert_eq!(clock.readers.lock().unwrap().contains(&task::id()), completes);
        };
        let caller = if completes { task::spawn(uninterrupted(caller)) } else { task::spawn(caller) };
        caller.await.unwrap();
    }
}
