//! Sessions: a cookie contains a token of the server, or a random number if the server asks for none.
//!
//! The cookie is the token itself. So every server with the same token file accepts it, and it expires with the token. The
//! token file has only hashes, so a reader of the file cannot make a cookie. Scripts cannot read the cookie, and other
//! sites cannot send it.

use crate::access::{Caller, Secret, hex};
use crate::http::{App, Problem, pass};
use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HeaderValue};
use ring::hmac;
use std::fmt::Write;

/// The names of the cookie. Browsers accept the first one only with TLS and for the whole host.
const NAMES: [&str; 2] = ["__Host-duetime", "duetime"];

/// The caller of a page.
///
/// # Errors
/// If too much is asked with the token.
pub(crate) fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let caller = reader(app, headers);
    if !matches!(caller, Caller::Nobody) {
        pass(&caller)?;
    }
    Ok(caller)
}

fn reader(app: &App, headers: &HeaderMap) -> Caller {
    let Some(tokens) = app.tokens() else { return Caller::Anyone };
    let found = cookie(headers, name(app)).and_then(|shown| Caller::of_token(tokens, shown, &app.clock));
    found.unwrap_or(Caller::Nobody)
}

/// Whether the server asks for tokens and the session has none.
pub(super) fn is_guest(app: &App, headers: &HeaderMap) -> bool {
    matches!(reader(app, headers), Caller::Nobody)
}

/// The value of a cookie. Other cookies of the host may have any bytes.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let pairs = headers.get_all(COOKIE).into_iter().flat_map(|value| value.as_bytes().split(|&byte| byte == b';'));
    pairs.filter_map(|pair| std::str::from_utf8(pair).ok()).find_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name && !value.is_empty()).then_some(value)
    })
}

/// The name of the session's cookie.
pub(super) fn name(app: &App) -> &'static str {
    if app.is_https() { NAMES[0] } else { NAMES[1] }
}

/// A new cookie that is no token, to make forms with.
pub(super) fn random() -> Option<String> {
    Secret::new().ok().map(|secret| hex(&secret.hash()))
}

/// The header that sets the session's cookie until the browser ends, or removes it.
pub(super) fn set(app: &App, value: Option<&str>) -> HeaderValue {
    let mut text = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", name(app), value.unwrap_or_default());
    if app.is_https() {
        text.push_str("; Secure");
    }
    if value.is_none() {
        text.push_str("; Max-Age=0");
    }
    HeaderValue::try_from(text).expect("tokens and hexadecimal digits are allowed in a header")
}

/// The hash that a form of this session must contain.
pub(super) fn form_token(cookie: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, cookie.as_bytes());
    hmac::sign(&key, b"duetime form").as_ref()[..16].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
