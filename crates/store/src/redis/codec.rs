//! The storage format of jobs. A *body* has what seldom changes, and is written once. A *meta* has what changes, and is
//! written from the first change on. Scripts read only the beginnings of both, which `lua/prelude.lua` describes, too.
//!
//! Numbers are big-endian; instants, versions and epochs have 6 bytes.

use super::bytes::{Reader, Writer};
use duetime_core::json::{Span, Timestamp};
use duetime_core::limits::PRIORITY_DEFAULT;
use duetime_core::model::job::{AttemptError, KeyUntil};
use duetime_core::model::name::KIND_DEFAULT;
use duetime_core::model::sent::Sent;
use duetime_core::{Error, Job, JobId, JobOptions, Progress, Stage, rules};
use serde::Serialize;
use std::sync::Arc;

const CANCEL_ASKED: u16 = 1;
const HOLDS_KEY: u16 = 2;
const HAS_PROGRESS: u16 = 4;
const REWRITTEN: u16 = 8;
const REMOVED: u16 = 16;
/// The job has tags, an origin, or a key that it gives up at its start, by which it can be found.
const TAGGED: u16 = 32;
const HAS_RESULT: u16 = 64;
const EXPIRES: u16 = 128;
/// The job was taken, or is leased to be taken; set by scripts.
const TAKEN: u16 = 256;
const UNTIL_STARTED: u16 = 512;
/// Others begin with its success.
const FOLLOWED: u16 = 1_024;

/// Flags of bodies only.
const HAS_ORIGIN: u16 = 1;
/// What was sent with it follows.
const HAS_SENT: u16 = 4;
const HAS_LEASE: u16 = 8;
const HAS_PRIORITY: u16 = 2_048;
const HAS_KEY: u16 = 4_096;
const HAS_VERSION: u16 = 8_192;
const FIRST_DUE_DIFFERS: u16 = 16_384;
/// [`JobOptions`](duetime_core::JobOptions) as JSON.
const HAS_OPTIONS: u16 = 32_768;

/// A body without a meta has at most this many bytes, so that scripts need not measure it before they read it. It leaves room
/// for everything but the payload.
pub(super) const FRESH_BYTES_MAX: usize = 64 << 10;
/// The largest payload of a body without a meta.
const FRESH_PAYLOAD_BYTES_MAX: usize = FRESH_BYTES_MAX / 2;

/// About how many bytes a job takes beyond its large parts.
const OTHERS_BYTES: usize = 256;

/// A job as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) job: Job,
    /// The length of the last lease, in milliseconds.
    pub(super) lease_ms: u64,
    /// Whether something in its body has changed since the ledger recorded it.
    pub(super) rewritten: bool,
    /// Whether it is only kept until its removal is recorded.
    pub(super) removed: bool,
    /// Whether it is leased to be taken.
    pub(super) takes: bool,
}

impl Record {
    pub(super) fn new(job: Job) -> Self {
        let lease_ms = job.restored_lease_ms();
        Self { job, lease_ms, rewritten: false, removed: false, takes: false }
    }

    pub(super) fn is_live(&self) -> bool {
        self.job.is_pending() && !self.removed
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        OTHERS_BYTES + self.job.held_bytes()
    }

    /// Whether its body is sufficient, without a meta.
    fn is_fresh(&self) -> bool {
        let job = &self.job;
        job.is_pending()
            && (job.epoch, job.attempt, job.crashes) == (0, 0, 0)
            && (job.lease_until, job.started_at, job.finished_at) == (None, None, None)
            && job.updated_at == job.created_at
            && job.message.is_none()
            && job.errors.is_empty()
            && job.result.is_none()
            && job.progress.is_none()
            && !(job.cancel_asked || self.rewritten || self.removed)
            && job.payload.len() <= FRESH_PAYLOAD_BYTES_MAX
    }

    /// Packs it as one value: id, lengths of body and meta, body, meta.
    pub(super) fn packed(&self) -> Vec<u8> {
        let (body, meta) = (self.body(true), self.full_meta());
        let length = |part: &[u8]| u32::try_from(part.len()).expect("payloads are limited to 64 MiB").to_be_bytes();
        [&self.job.id.get().to_be_bytes()[..], &length(&body), &length(&meta), &body, &meta].concat()
    }

    /// Unpacks the first of these values, and returns the rest; `None` if it is malformed.
    pub(super) fn unpacked(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (id, rest) = bytes.split_first_chunk::<8>()?;
        let (body_length, rest) = rest.split_first_chunk::<4>()?;
        let (meta_length, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_at_checked(u32::from_be_bytes(*body_length) as usize)?;
        let (meta, rest) = rest.split_at_checked(u32::from_be_bytes(*meta_length) as usize)?;
        let record = Decoder::default().read(JobId::new(u64::from_be_bytes(*id))?, body, meta, &[])?;
        Some((record, rest))
    }

    fn flags(&self) -> u16 {
        let job = &self.job;
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        flag(job.cancel_asked, CANCEL_ASKED)
            | flag(job.live_key().is_some() && !self.removed, HOLDS_KEY)
            | flag(job.progress.is_some(), HAS_PROGRESS)
            | flag(self.rewritten, REWRITTEN)
            | flag(self.removed, REMOVED)
            | flag(!job.tags.is_empty() || job.origin.is_some() || gives_up_key(job), TAGGED)
            | flag(job.result.is_some(), HAS_RESULT)
            | flag(job.expires.is_some(), EXPIRES)
            | flag(job.key_until == KeyUntil::Started, UNTIL_STARTED)
            | flag(!job.follow_ups(Stage::Succeeded).is_empty(), FOLLOWED)
    }

    /// Packs the body. Default values take no space. Beside a ledger, which indexes origins, a job is not found by its
    /// origin here.
    pub(super) fn body(&self, is_ledger: bool) -> Vec<u8> {
        let job = &self.job;
        // Apart from other options, which make scripts slower: nearly every push of a client has it.
        let sent = job.sent().filter(|_| job.origin.is_some());
        let options =
            job.options.as_ref().and_then(|options| JobOptions { sent: None, ..(**options).clone() }.shared());
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let is_tagged = !job.tags.is_empty() || (is_ledger && (job.origin.is_some() || gives_up_key(job)));
        let flags = (self.flags() & (HOLDS_KEY | EXPIRES | UNTIL_STARTED | FOLLOWED))
            | flag(is_tagged, TAGGED)
            | flag(job.origin.is_some(), HAS_ORIGIN)
            | flag(sent.is_some(), HAS_SENT)
            | flag(job.lease.is_some(), HAS_LEASE)
            | flag(job.priority != PRIORITY_DEFAULT, HAS_PRIORITY)
            | flag(job.key.is_some(), HAS_KEY)
            | flag(job.version != 1, HAS_VERSION)
            | flag(job.first_due_at != job.due_at, FIRST_DUE_DIFFERS)
            | flag(options.is_some(), HAS_OPTIONS);
        let mut body = Writer::with_capacity(job.payload.len() + 64);
        body.instant(job.created_at.0);
        body.instant(job.due_at.0);
        body.u16(flags);
        body.short(&job.queue);
        if flags & HAS_VERSION != 0 {
            body.instant(job.version);
        }
        job.lease.iter().for_each(|lease| body.u32(lease.0 as u32));
        if flags & HAS_PRIORITY != 0 {
            body.u32(job.priority);
        }
        job.key.iter().for_each(|key| body.short(key));
        job.origin.iter().for_each(|origin| body.short(origin));
        sent.iter().for_each(|sent| body.bytes(sent.bytes()));
        if flags & TAGGED != 0 {
            body.u8(job.tags.len() as u8);
            job.tags.iter().for_each(|tag| body.short(tag));
        }
        body.short(if *job.kind == *KIND_DEFAULT { "" } else { &job.kind });
        if flags & FIRST_DUE_DIFFERS != 0 {
            body.instant(job.first_due_at.0);
        }
        job.expires.iter().for_each(|expires| body.instant(expires.0));
        options.iter().for_each(|options| body.long(&json(options)));
        body.rest(&job.payload)
    }

    /// Whether a body that was packed for the other job can stay: both have the same in all that a meta does not repeat.
    pub(super) fn shares_body(&self, other: &Self) -> bool {
        let Job { kind, payload, priority, lease, expires, key_until, tags, .. } = &self.job;
        let other = &other.job;
        (kind, payload, priority, lease) == (&other.kind, &other.payload, &other.priority, &other.lease)
            && (expires, key_until) == (&other.expires, &other.key_until)
            && tags == &other.tags
            && self.job.options().is_but_for_releases(other.options())
    }

    /// Packs the meta; empty if the body is sufficient.
    pub(super) fn meta(&self) -> Vec<u8> {
        if self.is_fresh() { Vec::new() } else { self.full_meta() }
    }

    pub(super) fn full_meta(&self) -> Vec<u8> {
        let job = &self.job;
        let mut meta = Writer::with_capacity(128);
        meta.instant(job.version);
        meta.instant(job.epoch);
        meta.instant(job.lease_until.map_or(0, |at| at.0));
        meta.instant(job.started_at.map_or(0, |at| at.0));
        meta.instant(job.updated_at.0);
        meta.instant(job.finished_at.map_or(0, |at| at.0));
        meta.instant(job.due_at.0);
        meta.u32(job.attempt);
        meta.u32(self.lease_ms as u32);
        meta.u16(self.flags());
        meta.u8(job.stage.code());
        meta.short(&job.queue);
        meta.short(job.key.as_deref().unwrap_or_default());
        meta.u32(job.crashes);
        meta.instant(job.first_due_at.0);
        meta.u32(job.releases());
        meta.u8(u8::from(job.message.is_some()));
        meta.long(job.message.as_deref().unwrap_or_default().as_bytes());
        meta.u8(job.errors.len() as u8);
        for error in &job.errors {
            meta.u32(error.attempt);
            meta.instant(error.at.0);
            meta.u8(u8::from(error.crashed));
            meta.long(error.message.as_bytes());
        }
        // Last, followed by its length, so that scripts can remove or replace it.
        match &job.progress {
            Some(progress) => {
                let progress = json(progress);
                let length = u16::try_from(progress.len()).expect("entries are limited to 1 KiB");
                meta.rest(&[&progress[..], &length.to_be_bytes()].concat())
            }
            None => meta.rest(&[]),
        }
    }
}

/// Whether the job no longer holds its key once it has started.
fn gives_up_key(job: &Job) -> bool {
    job.key.is_some() && job.key_until == KeyUntil::Started
}

/// Reads jobs, sharing repeated names.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    queue: Option<Arc<str>>,
    kind: Option<Arc<str>>,
}

impl Decoder {
    /// Reads a job from its body and meta, if it has one. A first byte of the result says whether there is one.
    pub(super) fn record(&mut self, id: JobId, body: &[u8], meta: &[u8], result: &[u8]) -> Result<Record, Error> {
        self.read(id, body, meta, result).ok_or_else(|| Error::Damaged(format!("the job {id} in Redis cannot be read")))
    }

    fn read(&mut self, id: JobId, body: &[u8], meta: &[u8], result: &[u8]) -> Option<Record> {
        let mut body = Reader::new(body);
        let (created_at, due_at, flags) = (body.instant()?, body.instant()?, body.u16()?);
        let queue = shared(&mut self.queue, body.short()?);
        let says = |flag: u16| flags & flag != 0;
        let version = if says(HAS_VERSION) { body.instant()? } else { 1 };
        let lease_ms = if says(HAS_LEASE) { Some(u64::from(body.u32()?)) } else { None };
        let priority = if says(HAS_PRIORITY) { body.u32()? } else { PRIORITY_DEFAULT };
        let key = if says(HAS_KEY) { Some(Arc::from(body.short()?)) } else { None };
        let origin = if says(HAS_ORIGIN) { Some(Arc::from(body.short()?)) } else { None };
        let sent = if says(HAS_SENT) { Some(Sent::from_bytes(body.array()?)) } else { None };
        let count = if says(TAGGED) { body.u8()? } else { 0 };
        let tags: Option<Vec<Arc<str>>> = (0..count).map(|_| body.short().map(Arc::from)).collect();
        let kind = body.short()?;
        let kind = shared(&mut self.kind, if kind.is_empty() { KIND_DEFAULT } else { kind });
        let first_due_at = if says(FIRST_DUE_DIFFERS) { body.instant()? } else { due_at };
        let expires_ms = if says(EXPIRES) { Some(body.instant()?) } else { None };
        let options = if says(HAS_OPTIONS) { Some(serde_json::from_slice(body.long()?).ok()?) } else { None };
        let tags = tags?;
        let mut record = Record::new(Job {
            first_due_at: Timestamp(first_due_at),
            priority,
            lease: lease_ms.map(Span),
            expires: expires_ms.map(Span),
            key,
            key_until: if says(UNTIL_STARTED) { KeyUntil::Started } else { KeyUntil::Finished },
            origin,
            tags: if tags.is_empty() { Arc::default() } else { Arc::from(tags) },
            options,
            version,
            ..Job::new(id, queue, kind, Arc::from(body.rest()), due_at, created_at)
        });
        record.job.set_sent(sent);
        if !meta.is_empty() {
            read_meta(&mut record, meta)?;
        }
        record.job.result = result.split_first().map(|(_, result)| Arc::from(result));
        Some(record)
    }
}

/// Packs it for a script that puts it at the end of a meta.
pub(super) fn progress(progress: &Progress) -> Vec<u8> {
    json(progress)
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("it has only string keys")
}

fn read_meta(record: &mut Record, meta: &[u8]) -> Option<()> {
    let job = &mut record.job;
    let meta = &mut Reader::new(meta);
    let some = |at: u64| (at > 0).then_some(Timestamp(at));
    (job.version, job.epoch) = (meta.instant()?, meta.instant()?);
    (job.lease_until, job.started_at) = (some(meta.instant()?), some(meta.instant()?));
    (job.updated_at, job.finished_at) = (Timestamp(meta.instant()?), some(meta.instant()?));
    (job.due_at, job.attempt) = (Timestamp(meta.instant()?), meta.u32()?);
    record.lease_ms = u64::from(meta.u32()?);
    let flags = meta.u16()?;
    job.stage = Stage::from_code(meta.u8()?)?;
    job.cancel_asked = flags & CANCEL_ASKED != 0;
    record.rewritten = flags & REWRITTEN != 0;
    record.removed = flags & REMOVED != 0;
    if flags & HAS_PROGRESS != 0 {
        let (rest, length) = meta.rest().split_last_chunk::<2>()?;
        let start = rest.len().checked_sub(usize::from(u16::from_be_bytes(*length)))?;
        job.progress = Some(serde_json::from_slice(&rest[start..]).ok()?);
        *meta = Reader::new(&rest[..start]);
    }
    // They are also in the body.
    meta.short()?;
    meta.short()?;
    if !meta.is_empty() {
        (job.crashes, job.first_due_at) = (meta.u32()?, Timestamp(meta.instant()?));
        job.set_releases(meta.u32()?);
        let has_message = meta.u8()? != 0;
        let message = meta.text()?;
        job.message = has_message.then(|| Arc::from(message));
        for _ in 0..meta.u8()? {
            let (attempt, at, crashed) = (meta.u32()?, meta.instant()?, meta.u8()? != 0);
            job.errors.push(AttemptError::new(attempt, Timestamp(at), Arc::from(meta.text()?), crashed));
        }
    }
    record.takes = flags & TAKEN != 0 && job.lease_until.is_some();
    if flags & TAKEN != 0 && !job.is_pending() {
        job.message = Some(Arc::from(rules::TAKEN));
    }
    Some(())
}

fn shared(last: &mut Option<Arc<str>>, name: &str) -> Arc<str> {
    match last {
        Some(last) if **last == *name => last.clone(),
        _ => last.insert(Arc::from(name)).clone(),
    }
}
