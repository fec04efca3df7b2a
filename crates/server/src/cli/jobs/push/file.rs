//! `duetime push --file`: many jobs, one a line.
//!
//! Each line has an origin: its number, after a digest of the whole file or what `--origin` says. So after a broken connection the same
//! command pushes exactly the lines that are no jobs yet. Of the whole file, since two files may begin with the same lines.

use super::report::{Gap, Report};
use crate::cli::exit::{Failure, Result};
use crate::cli::line_reader::Lines;
use crate::cli::progress::Progress;
use crate::cli::push_batch::{self, BATCH_BYTES, BATCH_JOBS, is_of_a_job};
use crate::cli::target::Target;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duetime::{Client, Error, ErrorKind};
use duetime_core::NewJob;
use duetime_core::api::{self, Object, Push, Pushed};
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file that are digested at a time.
const DIGEST_BYTES: usize = 64 << 10;

/// The lines to push, and their defaults.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    /// What the origins of lines begin with; by default a digest of the file.
    pub(super) origin: Option<Arc<str>>,
    pub(super) rejects: Option<&'a PathBuf>,
    pub(super) queue: Arc<str>,
    pub(super) trace: Option<Arc<str>>,
}

/// A line that is a job, if the engine takes it.
struct Waiting {
    number: u64,
    /// The raw line, if it may be needed.
    line: Vec<u8>,
    job: NewJob,
}

pub(super) async fn run(mut source: Source<'_>, target: &Target) -> Result {
    if source.origin.is_none() {
        source.origin = digest(source.path)?;
    }
    let mut lines = Lines::open(source.path)?;
    let mut report = Report::new(source.rejects.map(PathBuf::as_path))?;
    let json = target.json;
    let client = target.client_of_new().await?;
    let progress = Progress::counting("pushing");
    let gap = push(client, &source, &mut lines, &mut report, &progress).await;
    progress.done();
    match gap? {
        None => report.end(json, source.origin.is_some()),
        Some(gap) => Err(report.broken(json, &gap, source.origin.is_some())),
    }
}

/// A digest of a file; `None` for standard input, which can be read once, and for other files of that kind.
fn digest(path: &Path) -> Result<Option<Arc<str>>> {
    let read = |error| Failure::error(format!("cannot read {}: {error}", path.display()));
    if path.as_os_str() == "-" || !path.metadata().map_err(read)?.is_file() {
        return Ok(None);
    }
    let mut digest = Context::new(&SHA256);
    let (mut file, mut bytes) = (File::open(path).map_err(read)?, vec![0; DIGEST_BYTES]);
    loop {
        match file.read(&mut bytes).map_err(read)? {
            0 => break,
            count => digest.update(&bytes[..count]),
        }
    }
    Ok(Some(URL_SAFE_NO_PAD.encode(digest.finish()).into()))
}

/// Pushes all lines. Returns where the answers stopped, if they did.
async fn push(
    client: &Client,
    source: &Source<'_>,
    lines: &mut Lines,
    report: &mut Report,
    progress: &Progress,
) -> Result<Option<Gap>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while let Some((number, line)) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        match parse(number, line, source) {
            Ok(job) => {
                bytes += job.payload.len();
                let line = if report.keeps_rejects() { line.to_vec() } else { Vec::new() };
                batch.push(Waiting { number, line, job });
            }
            Err((code, why)) => report.refuse(number, line, code, why)?,
        }
        if batch.len() >= BATCH_JOBS || bytes >= BATCH_BYTES {
            let gap = send(client, std::mem::take(&mut batch), report, progress).await?;
            if gap.is_some() {
                return Ok(gap);
            }
            bytes = 0;
        }
    }
    send(client, batch, report, progress).await
}

/// The job of a line, or the code and the reason why it is none.
fn parse(number: u64, line: &[u8], source: &Source<'_>) -> std::result::Result<NewJob, (&'static str, String)> {
    let mut job = job_of(line, &source.queue)?;
    job.options.trace = job.options.trace.or_else(|| source.trace.clone());
    let of_line = || source.origin.as_ref().map(|origin| format!("{origin}:{number}").into());
    job.origin = job.origin.or_else(of_line);
    Ok(job)
}

fn job_of(line: &[u8], queue: &Arc<str>) -> std::result::Result<NewJob, (&'static str, String)> {
    let Object(push) =
        api::read_bytes::<Object<Push<'_>>>(line).map_err(|unread| (unread.code(), unread.to_string()))?;
    push.into_job(queue).map_err(|error| (error.code(), error.to_string()))
}

async fn send(client: &Client, batch: Vec<Waiting>, report: &mut Report, progress: &Progress) -> Result<Option<Gap>> {
    let answers = push_batch::push(client, batch.iter().map(|waiting| waiting.job.clone()).collect()).await;
    progress.add(batch.len());
    note(&batch, answers, report)
}

/// Counts answers; returns the lines without one.
fn note(
    batch: &[Waiting],
    answers: Vec<std::result::Result<Pushed, Error>>,
    report: &mut Report,
) -> Result<Option<Gap>> {
    let mut gap: Option<Gap> = None;
    for (Waiting { number, line, .. }, answer) in batch.iter().zip(answers) {
        match answer {
            Ok(pushed) => {
                report.taken(pushed.outcome);
            }
            Err(error) if is_of_a_job(&error) => report.refuse(*number, line, error.code(), &error)?,
            Err(error) => {
                let gap = gap.get_or_insert_with(|| Gap {
                    unanswered: Vec::new(),
                    why: error.to_string(),
                    is_unknown: false,
                    passes: error.is_retryable(),
                });
                gap.unanswered.push(*number);
                gap.is_unknown |= error.kind() == ErrorKind::OutcomeUnknown;
            }
        }
    }
    Ok(gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> std::result::Result<NewJob, String> {
        job_of(text.as_bytes(), &"else".into()).map_err(|(_, error)| error)
    }

    #[test]
    fn a_line_is_a_push_with_its_queue() {
        let named = job(r#"{"payload": {"b" : 1.0,"a":"\u00fc"}, "queue": "orders", "kind": "k"}"#).unwrap();
        assert_eq!(
            (&*named.queue, &*named.kind, &*named.payload),
            ("orders", "k", &br#"{"b" : 1.0,"a":"\u00fc"}"#[..])
        );
        assert_eq!(&*job(r#"{"payload": 1}"#).unwrap().queue, "else");
    }

    #[test]
    fn what_is_no_push_is_refused() {
        for (text, why) in [
            (r#"{"payload":1,"queue":"a","queue":"b"}"#, "`queue` must be given once"),
            (r#"{"payload":1,"payload":2}"#, "`payload` must be given once"),
            (r#"{"payload":1,"que":"a"}"#, "`que` is unknown"),
            (r#"{"payload":1,"queue":7}"#, "must be a string"),
            (r#"{"queue":"a"}"#, "neither"),
            ("[1]", "must be an object"),
            (r#"{"payload":1} 2"#, "something follows the value"),
        ] {
            let error = job(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
