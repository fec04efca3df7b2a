//! Kick, and pause.

use super::command::Tube;
use super::connection::Connection;
use super::marks::JobMarks;
use crate::access::Scope;
use crate::http::AuditedCommand;
use duetime::server::BEANSTALK;
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::{Pause, Query};
use duetime_core::limits::{DELAY_MS_MAX, PAGE_BYTES_MAX, PAGE_JOBS_MAX, SECOND_MS};
use duetime_core::ports::{Change, Update};
use duetime_core::{Error, Job, JobId, JobRef, Millis, State, States};
use tokio::io::{AsyncRead, AsyncWrite};

/// Pages without a job to kick that are looked at before a kick gives up.
const VAIN_PAGES_MAX: usize = 10;
/// Least jobs of a page of delayed ones, which may come in another order than they are due while the engine loads, and of a page that is
/// looked at because those before it could not be kicked.
const PAGE_JOBS_MIN: usize = 100;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) async fn kick(&mut self, bound: u64) {
        let (tube, replied) = (self.state.used.clone(), self.reply.0.len());
        self.kick_used(&tube, bound).await;
        self.note(&format!("kick {bound}"), &tube, replied);
    }

    async fn kick_used(&mut self, tube: &Tube, bound: u64) {
        if !self.state.may(Scope::Change, tube) {
            return self.reply.line(self.state.forbidden());
        }
        let kicked = match self.kick_all(tube, State::Failed, bound).await {
            Ok(0) => self.kick_all(tube, State::Scheduled, bound).await,
            kicked => kicked,
        };
        match kicked {
            Ok(kicked) => self.reply.number("KICKED", kicked),
            Err(error) => self.reply.failure(&error),
        }
    }

    /// Kicks jobs of a tube that are in this state, at most this many.
    async fn kick_all(&mut self, tube: &Tube, state: State, bound: u64) -> Result<u64, Error> {
        let (mut kicked, mut vain_pages, mut cursor) = (0, 0, None);
        // A kick of many takes a while, in which the right may be lost.
        while kicked < bound && vain_pages < VAIN_PAGES_MAX && self.state.may(Scope::Change, tube) {
            let least = if cursor.is_some() || state == State::Scheduled { PAGE_JOBS_MIN } else { 1 };
            let limit = usize::try_from(bound - kicked).unwrap_or(PAGE_JOBS_MAX).clamp(least, PAGE_JOBS_MAX);
            let jobs = self.door.find_after(&mut cursor, tube, state, limit).await?;
            let (mut rest, before) = (&jobs[..], kicked);
            while kicked < bound && !rest.is_empty() {
                let count = usize::try_from(bound - kicked).unwrap_or(PAGE_JOBS_MAX).min(rest.len());
                let (some, later) = rest.split_at(count);
                rest = later;
                match self.kick_some(some).await {
                    (made, None) => kicked += made,
                    (made, Some(error)) if kicked + made == 0 => return Err(error),
                    (made, Some(_)) => return Ok(kicked + made),
                }
            }
            if cursor.is_none() {
                break;
            }
            vain_pages += usize::from(kicked == before);
        }
        Ok(kicked)
    }

    /// Kicks those of these jobs that can be, and answers how many; with why the others could not be asked for.
    async fn kick_some(&self, jobs: &[Job]) -> (u64, Option<Error>) {
        let now = self.door.engine.now();
        let kicks = jobs.iter().map(|job| kick(job, kicked(job), now)).collect();
        let (mut made, mut failure) = (0, None);
        for answer in self.door.engine.change_each(kicks).await {
            match answer {
                Ok(_) => made += 1,
                // Somebody else was faster, or another job has the key now.
                Err(
                    Error::VersionMismatch { .. }
                    | Error::Running(_)
                    | Error::Finished { .. }
                    | Error::NotFound(_)
                    | Error::KeyConflict { .. },
                ) => {}
                Err(error) => failure = Some(error),
            }
        }
        (made, failure)
    }

    pub(super) async fn kick_job(&mut self, id: u64) {
        let Some(id) = JobId::new(id) else { return self.reply.line("NOT_FOUND") };
        let now = self.door.engine.now();
        let kicked = match self.visible(id, Scope::Change).await {
            // A ready job is left as it is, and so is a reserved one.
            Ok(job) if job.state(now) == State::Ready => Some(Err(Error::NotFound(id))),
            Ok(job) => self.door.engine.change_each(vec![kick(&job, kicked(&job), now)]).await.pop(),
            Err(error) => Some(Err(error)),
        };
        self.reply.done("KICKED", kicked.transpose());
    }

    pub(super) async fn pause(&mut self, tube: Tube, seconds: u32) {
        let replied = self.reply.0.len();
        if self.state.may(Scope::Admin, &tube) {
            let paused = self.try_pause(&tube, seconds).await;
            self.reply.done("PAUSED", paused);
        } else {
            self.reply.line(self.state.forbidden());
        }
        self.note(&format!("pause-tube {tube} {seconds}"), &tube, replied);
    }

    /// Writes an administrator's command into the audit log, with the reply that begins at this byte.
    fn note(&self, command: &str, queue: &str, replied: usize) {
        let reply = String::from_utf8_lossy(&self.reply.0[replied..]);
        self.door.audit.note_command(&AuditedCommand {
            at: Timestamp(self.door.engine.now()),
            who: self.state.caller.name(),
            peer: self.state.peer,
            command,
            queue,
            reply: reply.trim_end(),
        });
    }

    async fn try_pause(&mut self, tube: &Tube, seconds: u32) -> Result<(), Error> {
        let pause_ms = u64::from(seconds) * SECOND_MS;
        if pause_ms > DELAY_MS_MAX {
            return Err(Error::invalid("pause", "at most 10 years", format!("{seconds} s")));
        }
        let engine = &self.door.engine;
        if !self.door.has_tube(tube).await? {
            return Err(Error::NotFound(JobId::MIN));
        }
        if seconds == 0 {
            // A tube that was never paused needs no settings to resume.
            if engine.queue(tube).await?.settings.paused {
                engine.resume(tube).await?;
            }
        } else {
            engine.pause(tube, Pause::For(Span(pause_ms))).await?;
        }
        self.door.tubes.change(tube, |known| {
            known.pauses += 1;
            known.pause_s = seconds.into();
        });
        Ok(())
    }
}

/// A delayed job is due now, a buried one ready. One that was put here goes on with its attempts: they are not limited. Any other
/// begins anew, as with a retry over HTTP.
pub(super) fn kick(job: &Job, marked: JobMarks, now: Millis) -> (JobRef, Change) {
    let marks = marked.shared();
    let change = if job.is_pending() {
        Change::Update(Update { due_at: Some(now), marks, ..Update::default() })
    } else {
        Change::Retry { after: Span(0), keeps_attempts: *job.kind == *BEANSTALK, marks }
    };
    (JobRef { id: job.id, version: Some(job.version) }, change)
}

/// The marks of a job after a kick. What says when it is due first changes with that, so its delay is noted.
pub(super) fn kicked(job: &Job) -> JobMarks {
    let marked = JobMarks::of_job(job);
    let delay_ms = marked.delay_ms.unwrap_or(job.first_due_at.0.saturating_sub(job.created_at.0));
    JobMarks { kicks: marked.kicks + 1, delay_ms: Some(delay_ms), ..marked }
}

impl super::Door {
    /// Jobs of a tube in this state: delayed and ready ones in the order of their due times, buried ones in that of their ids, and behind
    /// them those that failed otherwise, the newest first.
    pub(super) async fn find(&self, tube: &Tube, state: State, limit: usize) -> Result<Vec<Job>, Error> {
        let least = if state == State::Scheduled { PAGE_JOBS_MIN } else { 1 };
        // A page of jobs is in memory until one is chosen.
        let mut share = self.account.answers.share();
        let page = share.grow(PAGE_BYTES_MAX.min(limit.max(least) * self.engine.payload_bytes_max()));
        page.await.map_err(|_| Error::Full("all memory for answers is in use".to_owned()))?;
        let mut jobs = self.find_after(&mut None, tube, state, limit.max(least)).await?;
        jobs.truncate(limit);
        Ok(jobs)
    }

    /// The same from a cursor on, which is `None` again after the last.
    async fn find_after(
        &self,
        cursor: &mut Option<String>,
        tube: &Tube,
        state: State,
        limit: usize,
    ) -> Result<Vec<Job>, Error> {
        let state = States { states: vec![state], retrying: false };
        let query = Query { queue: Some(tube.clone()), state, ..Query::default() };
        for _ in 0..VAIN_PAGES_MAX {
            let mut listed = self.engine.find(&query, cursor.as_deref(), limit).await?;
            if query.state.states != [State::Failed] {
                listed.jobs.sort_by_key(|job| (job.due_at, job.id));
            }
            *cursor = listed.next_cursor;
            if !listed.jobs.is_empty() || cursor.is_none() {
                return Ok(listed.jobs);
            }
        }
        Ok(Vec::new())
    }
}
