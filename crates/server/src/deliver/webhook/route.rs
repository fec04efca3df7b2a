//! A target's URL and headers, parsed once for all its deliveries.

use super::address::Rules;
use duetime_core::Error;
use duetime_core::model::target::Endpoint;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    USER_AGENT,
};
use hyper::{Method, Uri};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// Headers that belong to the connection.
const OURS: [HeaderName; 7] = [CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
/// Prefixes of headers that describe the delivery.
const OUR_PREFIXES: [&str; 2] = ["webhook-", "duetime-"];
const USER_AGENT_DEFAULT: &str = concat!("duetime/", env!("CARGO_PKG_VERSION"));

/// The destination and form of deliveries.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(super) method: Method,
    /// The URL as it was given.
    pub(super) url: Arc<str>,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) timeout: Duration,
    pub(super) final_statuses: Vec<u16>,
    pub(super) key: Option<Arc<str>>,
    /// Whether it goes without TLS.
    pub(super) is_plain: bool,
}

impl Route {
    /// Reads an endpoint. An address in the URL is checked here, in any notation.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the part.
    pub(crate) fn new(endpoint: &Endpoint, rules: Rules) -> Result<Self, Error> {
        let wrong = |expected: &str, got: &dyn std::fmt::Display| Error::invalid("target.url", expected, got);
        let mut url = Url::parse(&endpoint.url).map_err(|error| wrong("a URL", &error))?;
        let is_plain = match url.scheme() {
            "https" => false,
            "http" if rules.allow_private => true,
            "http" => return Err(wrong("https; http needs --webhook-allow-private", &"http")),
            scheme => return Err(wrong("https or http", &scheme)),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("a URL without a user or password; use the header `authorization`", &"one with them"));
        }
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) => None,
            None => return Err(wrong("a URL with a host", &"none")),
        };
        if let Some(address) = literal {
            let refused = rules.reach(is_plain).check(address).err();
            refused.map_or(Ok(()), |refused| {
                Err(wrong("a URL that deliveries are allowed to reach", &format_args!("one that is {refused}")))
            })?;
        }
        url.set_fragment(None);
        Ok(Self {
            method: endpoint.method.parse().map_err(|error| Error::invalid("target.method", "a method", error))?,
            url: endpoint.url.clone(),
            uri: url.as_str().parse().map_err(|error| wrong("a URL", &error))?,
            headers: headers(endpoint)?,
            timeout: Duration::from_millis(endpoint.timeout.0),
            final_statuses: endpoint.final_statuses.clone(),
            key: endpoint.key.clone(),
            is_plain,
        })
    }

    /// How long one delivery may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }
}

fn headers(endpoint: &Endpoint) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::with_capacity(endpoint.headers.len() + 12);
    headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_DEFAULT));
    for (name, value) in &endpoint.headers {
        let wrong = |expected: &str| Error::invalid("target.headers", expected, format_args!("{name:?}"));
        let key: HeaderName = name.parse().map_err(|_| wrong("valid header names"))?;
        if OURS.contains(&key) || OUR_PREFIXES.iter().any(|prefix| key.as_str().starts_with(prefix)) {
            return Err(wrong("headers that Duetime does not set itself"));
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong("visible ASCII characters as the value"))?;
        // Not to be shown in a log: it may be a password.
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(url: &str, allow_private: bool) -> Result<Route, Error> {
        route_with(&format!(r#"{{"url": "{url}"}}"#), allow_private)
    }

    fn route_with(target: &str, allow_private: bool) -> Result<Route, Error> {
        let Ok(duetime_core::model::target::Target::Url(endpoint)) = serde_json::from_str(target) else {
            panic!("a URL")
        };
        Route::new(&endpoint, Rules { allow_private })
    }

    #[test]
    fn addresses_are_judged_in_every_form() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "0x7f.0.0.1",
            "127.0.0.1.",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[64:ff9b::7f00:1]",
            "[0:0:0:0:0:0:0:1]",
            "10.1",
            "0xa000001",
            "192.168.257",
            "%31%32%37.0.0.1",
            "１２７.0.0.1",
        ] {
            let refused = route(&format!("https://{host}/x"), false).unwrap_err().to_string();
            assert!(refused.contains("refused: ") && refused.contains("allow-private"), "{host}: {refused}");
            assert!(route(&format!("https://{host}/x"), true).is_ok(), "{host}");
        }
        for host in ["169.254.169.254", "2852039166", "0xa9fea9fe", "[fe80::1]", "0.0.0.0", "0", "[::]"] {
            for allow_private in [false, true] {
                assert!(route(&format!("https://{host}/x"), allow_private).is_err(), "{host}");
            }
        }
    }

    #[test]
    fn what_may_be_delivered_to_is_read() {
        let read = route("https://Shop.example:8443/hook?a=1#part", false).unwrap();
        assert_eq!(read.uri, "https://shop.example:8443/hook?a=1");
        assert!(!read.is_plain);
        assert!(route("http://shop.example/", true).unwrap().is_plain);
        assert!(route("http://shop.example/", false).unwrap_err().to_string().contains("`target.url` must be https"));
        assert!(route("http://1.1.1.1/", true).unwrap_err().to_string().contains("over plain http"));
        let error = route("https://me:secret@shop.example/", false).unwrap_err().to_string();
        assert!(error.contains("authorization") && !error.contains("secret"), "{error}");
        for url in ["https://", "https://a b/", "https://[::1%25eth0]/"] {
            assert!(route(url, true).is_err(), "{url}");
        }
    }

    #[test]
    fn headers_of_the_delivery_are_its_own() {
        let with = |name: &str| {
            route_with(&format!(r#"{{"url": "https://a.example", "headers": {{"{name}": "secret"}}}}"#), false)
        };
        for name in ["Host", "content-length", "Webhook-Id", "duetime-queue", "bad name"] {
            let error = with(name).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains("secret"), "{error}");
        }
        let read = with("authorization").unwrap();
        assert!(!format!("{read:?}").contains("secret"));
        assert_eq!(read.headers["user-agent"], USER_AGENT_DEFAULT);
    }
}
