//! What `#[job(…)]` says.

use crate::span;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Lit, LitInt, LitStr, Result};

/// The settings of a job type.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) kind: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    /// Former kinds.
    pub(crate) was: Vec<LitStr>,
    pub(crate) retry: Option<Backoff>,
    pub(crate) jitter: Option<f64>,
    pub(crate) max_attempts: Option<LitInt>,
    pub(crate) max_crashes: Option<LitInt>,
    pub(crate) when_exhausted: Option<WhenExhausted>,
    pub(crate) priority: Option<LitInt>,
    pub(crate) concurrency: Option<LitInt>,
    /// In milliseconds, as are the next three.
    pub(crate) max_age: Option<u64>,
    pub(crate) timeout: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) lease: Option<u64>,
    /// Names of fields that make the key.
    pub(crate) unique: Vec<LitStr>,
    /// Names of fields that become tags.
    pub(crate) tags: Vec<LitStr>,
}

/// The waits between attempts.
pub(crate) enum Backoff {
    Default,
    None,
    /// Milliseconds.
    Steps(Vec<u64>),
}

/// What becomes of a job whose attempts are used up.
pub(crate) enum WhenExhausted {
    Keep,
    Drop,
    Restart,
    Move(LitStr),
}

const EXPECTED: &str = "expected `kind`, `queue`, `was`, `retry`, `jitter`, `max_attempts`, `max_age`, `max_crashes`, \
                        `when_exhausted`, `timeout`, `expires`, `lease`, `priority`, `concurrency`, `unique` or `tags`";

impl Settings {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut settings = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("job")) {
            attribute.parse_nested_meta(|meta| settings.set(&meta))?;
        }
        Ok(settings)
    }

    fn set(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "kind" => once(&mut self.kind, meta, text(meta)?),
            "queue" => once(&mut self.queue, meta, text(meta)?),
            "was" => {
                self.was.push(text(meta)?);
                Ok(())
            }
            "retry" => once(&mut self.retry, meta, backoff(&text(meta)?)?),
            "jitter" => once(&mut self.jitter, meta, part(meta)?),
            "max_attempts" => once(&mut self.max_attempts, meta, number(meta)?),
            "max_crashes" => once(&mut self.max_crashes, meta, number(meta)?),
            "when_exhausted" => once(&mut self.when_exhausted, meta, when_exhausted(&text(meta)?)?),
            "concurrency" => once(&mut self.concurrency, meta, number(meta)?),
            "priority" => once(&mut self.priority, meta, number(meta)?),
            "max_age" => once(&mut self.max_age, meta, duration(&text(meta)?)?),
            "timeout" => once(&mut self.timeout, meta, duration(&text(meta)?)?),
            "expires" => once(&mut self.expires, meta, duration(&text(meta)?)?),
            "lease" => once(&mut self.lease, meta, duration(&text(meta)?)?),
            "unique" => {
                self.unique.extend(parts(&text(meta)?));
                Ok(())
            }
            "tags" => {
                self.tags.extend(parts(&text(meta)?));
                Ok(())
            }
            _ => Err(meta.error(EXPECTED)),
        }
    }
}

fn once<T>(place: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> Result<()> {
    if place.replace(value).is_some() {
        return Err(meta.error("given twice"));
    }
    Ok(())
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let text: LitStr = meta.value()?.parse()?;
    if text.value().is_empty() { Err(Error::new(text.span(), "expected text, got none")) } else { Ok(text) }
}

fn number(meta: &ParseNestedMeta<'_>) -> Result<LitInt> {
    let number: LitInt = meta.value()?.parse()?;
    match number.base10_parse::<u32>() {
        Ok(_) => Ok(number),
        Err(_) => Err(Error::new(number.span(), format!("expected a number from 0 to {}, got {number}", u32::MAX))),
    }
}

/// A number from 0 to 1.
fn part(meta: &ParseNestedMeta<'_>) -> Result<f64> {
    let number: Lit = meta.value()?.parse()?;
    let part = match &number {
        Lit::Float(part) => part.base10_parse().ok(),
        Lit::Int(whole) => whole.base10_parse().ok(),
        _ => None,
    };
    part.filter(|part| (0.0..=1.0).contains(part))
        .ok_or_else(|| Error::new(number.span(), "expected a number from 0 to 1"))
}

fn when_exhausted(text: &LitStr) -> Result<WhenExhausted> {
    let value = text.value();
    match (value.as_str(), value.strip_prefix("move:")) {
        ("keep", _) => Ok(WhenExhausted::Keep),
        ("drop", _) => Ok(WhenExhausted::Drop),
        ("restart", _) => Ok(WhenExhausted::Restart),
        (_, Some(queue)) if !queue.is_empty() => Ok(WhenExhausted::Move(LitStr::new(queue, text.span()))),
        _ => Err(Error::new(text.span(), "expected \"keep\", \"drop\", \"restart\" or \"move:QUEUE\"")),
    }
}

/// The parts of a list, separated by commas.
fn parts(list: &LitStr) -> Vec<LitStr> {
    list.value().split(',').map(|part| LitStr::new(part.trim(), list.span())).collect()
}

fn duration(text: &LitStr) -> Result<u64> {
    let expected = || format!("expected a duration such as \"250ms\", \"30s\" or \"1h30m\", got {:?}", text.value());
    span::parse(&text.value()).ok_or_else(|| Error::new(text.span(), expected()))
}

fn backoff(text: &LitStr) -> Result<Backoff> {
    match text.value().as_str() {
        "default" => Ok(Backoff::Default),
        "none" => Ok(Backoff::None),
        _ => Ok(Backoff::Steps(parts(text).iter().map(duration).collect::<Result<_>>()?)),
    }
}
