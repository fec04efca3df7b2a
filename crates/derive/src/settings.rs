//! What `#[job(…)]` says.

use crate::span;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitInt, LitStr, Result};

/// The settings of a job type.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) kind: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    /// Former kinds.
    pub(crate) was: Vec<LitStr>,
    pub(crate) retry: Option<Backoff>,
    pub(crate) max_attempts: Option<LitInt>,
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

const EXPECTED: &str = "expected `kind`, `queue`, `was`, `retry`, `max_attempts`, `max_age`, `timeout`, `expires`, `lease`, \
                        `priority`, `concurrency`, `unique` or `tags`";

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
            "max_attempts" => once(&mut self.max_attempts, meta, number(meta)?),
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
