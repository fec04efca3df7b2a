//! The names by which the server may be addressed.
//!
//! A web page can make its own name mean the server's address (DNS rebinding), and the browser then takes the server for the
//! page's own. It still sends the page's name in `Host`. So a server that asks for no tokens answers only to names that its
//! operator gave it, to `localhost`, and to addresses, which no page can claim.

use axum::http::uri::Authority;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// A name that the operator gave the server, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName(Box<str>);

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim_end_matches('.');
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
            return Ok(Self(name.to_ascii_lowercase().into()));
        }
        Err(format!("expected a host name without a port, such as queue.example, got {text:?}"))
    }
}

/// Which hosts are answered.
#[derive(Clone, Debug)]
pub(crate) enum Hosts {
    /// Any host: a page without a token gets nothing.
    Any,
    /// `localhost`, addresses, and these.
    Named(Arc<[HostName]>),
}

impl Hosts {
    pub(crate) fn new(names: &[HostName], asks_for_tokens: bool) -> Self {
        if asks_for_tokens && names.is_empty() { Self::Any } else { Self::Named(names.into()) }
    }

    /// Whether the server answers to this, as it stands in `Host`.
    pub(crate) fn has(&self, host: &str) -> bool {
        let Self::Named(names) = self else { return true };
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let name = name.trim_end_matches('.');
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        is("localhost") || names.iter().any(|known| is(&known.0)) || address.parse::<IpAddr>().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_page_can_claim_are_answered() {
        let hosts = Hosts::new(&["Queue.example.".parse().unwrap()], false);
        for host in ["localhost", "LocalHost:7300", "127.0.0.1:7300", "[::1]:7300", "192.168.0.7", "queue.EXAMPLE:80"] {
            assert!(hosts.has(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:7300",
            "127.0.0.1.evil.example",
            "queue.example.evil.example",
            "x.queue.example",
            "",
            "a b",
        ] {
            assert!(!hosts.has(host), "{host}");
        }
    }

    #[test]
    fn with_tokens_names_are_compared_where_there_are_some() {
        assert!(Hosts::new(&[], true).has("evil.example") && !Hosts::new(&[], false).has("evil.example"));
        assert!(!Hosts::new(&["a.example".parse().unwrap()], true).has("evil.example"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", ".", "a.example:80", "me@a.example", "a b", "https://a.example", "*", "*.example"] {
            assert!(text.parse::<HostName>().is_err(), "{text}");
        }
    }
}
