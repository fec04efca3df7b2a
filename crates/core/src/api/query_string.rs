//! Values of query strings.

use crate::Error;
use std::str::FromStr;

pub(super) fn once<T>(what: &'static str, place: &mut Option<T>, value: T) -> Result<(), Error> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::invalid(what, "given once", "several")),
    }
}

pub(super) fn yes_or_no(what: &'static str, text: &str) -> Result<bool, Error> {
    text.parse().map_err(|_| Error::invalid(what, "`true` or `false`", format!("{text:?}")))
}

pub(super) fn number<T: FromStr>(what: &'static str, text: &str) -> Result<T, Error> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Error::invalid(what, "a number", format!("{text:?}")))
}
