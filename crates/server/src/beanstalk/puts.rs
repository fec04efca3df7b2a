//! Jobs that are put.

use super::command::Put;
use super::connection::Connection;
use super::counters::add;
use super::leases::lease_ms;
use super::marks::JobMarks;
use super::reply::OUT_OF_MEMORY;
use crate::access::Scope;
use duetime::server::BEANSTALK;
use duetime_core::api::Span;
use duetime_core::engine::PushOutcome;
use duetime_core::limits::{LEASE_MS_MAX, SECOND_MS};
use duetime_core::{Due, JobOptions, NewJob, Payload};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

static KIND: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(BEANSTALK));

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) async fn put(&mut self, puts: Vec<(Put, Payload)>) {
        self.is_a_producer();
        let (count, tube) = (puts.len() as u64, self.state.used.clone());
        self.door.counters.count("put", puts.len());
        if self.door.is_draining() {
            return (0..count).for_each(|_| self.reply.line("DRAINING"));
        }
        if !self.state.may(Scope::Push, &tube) {
            return (0..count).for_each(|_| self.reply.line(self.state.forbidden()));
        }
        let job = |(Put { priority, delay_ms, ttr_s, bytes: _ }, payload)| {
            let due = if delay_ms == 0 { Due::Now } else { Due::After(Span(delay_ms)) };
            NewJob { due, ..new_job(tube.clone(), priority, ttr_s, payload) }
        };
        let answers = match self.door.engine.push(puts.into_iter().map(job).collect()).await {
            Ok(answers) => answers,
            Err(error) => return (0..count).for_each(|_| self.reply.failure(&error)),
        };
        let mut inserted = 0;
        for answer in answers {
            match answer {
                // Its client would take it for inserted.
                Ok(pushed) if pushed.outcome == PushOutcome::Dropped => self.reply.line(OUT_OF_MEMORY),
                Ok(pushed) => {
                    inserted += 1;
                    self.reply.number("INSERTED", pushed.job.id.get());
                }
                Err(error) => self.reply.failure(&error),
            }
        }
        add(&self.door.counters.total_jobs, inserted);
        self.door.tubes.change(&tube, |known| known.total_jobs += inserted);
    }
}

/// A job as a client puts it, due now.
pub(crate) fn new_job(tube: Arc<str>, priority: u32, ttr_s: u32, payload: Payload) -> NewJob {
    let is_long = u64::from(ttr_s) * SECOND_MS > LEASE_MS_MAX;
    let marked = JobMarks { ttr_s: is_long.then_some(ttr_s.into()), ..JobMarks::default() };
    NewJob {
        queue: tube,
        kind: KIND.clone(),
        priority,
        lease: Some(Span(lease_ms(Duration::from_secs(ttr_s.into())))),
        options: JobOptions { marks: marked.shared(), ..JobOptions::default() },
        ..NewJob::new(payload)
    }
}
