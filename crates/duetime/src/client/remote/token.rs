//! The token with which a client authenticates.

use crate::error::{Cause, Error};
use hyper::header::HeaderValue;
use std::str::FromStr;

/// A server's bearer token, as `duetime token create` printed it. It never appears in logs or `Debug` output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(HeaderValue);

impl Token {
    /// The value of the header `authorization`.
    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl FromStr for Token {
    type Err = Error;

    /// Parses a token; surrounding whitespace is ignored.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is not a valid header value.
    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let value = HeaderValue::try_from(format!("Bearer {text}")).ok().filter(|_| is_token);
        let mut value = value.ok_or(Cause::Token)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_shown() {
        let token: Token = " secret\n".parse().unwrap();
        assert_eq!(token.header(), "Bearer secret");
        assert!(!format!("{token:?}").contains("secret"));
        for wrong in ["", " ", "a b", "a\nb", "ä"] {
            let error = wrong.parse::<Token>().unwrap_err();
            assert_eq!(error.code(), "token", "{wrong:?}");
        }
    }
}
