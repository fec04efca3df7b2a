//! Receives webhooks of Duetime, or of any sender that signs as Standard Webhooks specifies.
//!
//! ```sh
//! WEBHOOK_KEYS='whsec_… whsec_…' cargo run -p duetime-server --example webhook_receiver -- 127.0.0.1:8080
//! ```
//!
//! A signature by any of the keys is accepted, so keys can be rotated without a gap. Anything else is answered
//! with 401, which the sender retries, since the receiver may be the one that is late with a new key.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::any;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duetime_core::{Clock as _, SystemClock};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use ring::hmac;
use std::error::Error;
use std::sync::Arc;

const TOLERANCE_SECONDS: u64 = 300;

struct Receiver {
    keys: Vec<hmac::Key>,
    clock: SystemClock,
}

impl Receiver {
    /// Why a request is not to be taken.
    fn check(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), &'static str> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
        let seconds: u64 = timestamp.parse().map_err(|_| "expected webhook-id and webhook-timestamp")?;
        // A request that was overheard must not be of use later.
        if (self.clock.wall() / 1_000).abs_diff(seconds) > TOLERANCE_SECONDS {
            return Err("the timestamp is more than five minutes off");
        }
        let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        let signatures = header("webhook-signature").split(' ').filter_map(|one| one.strip_prefix("v1,"));
        let signatures: Vec<Vec<u8>> = signatures.filter_map(|one| STANDARD.decode(one).ok()).collect();
        // Compares in constant time.
        let is_signed = |key: &hmac::Key| signatures.iter().any(|one| hmac::verify(key, &signed, one).is_ok());
        if self.keys.iter().any(is_signed) { Ok(()) } else { Err("no key has signed this") }
    }
}

async fn receive(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    if let Err(why) = receiver.check(&headers, &body) {
        return (StatusCode::UNAUTHORIZED, why.to_owned());
    }
    // A webhook may arrive twice: act once for each id. The id is the same in every attempt.
    let id = headers["webhook-id"].to_str().unwrap_or_default();
    println!("job {id}: {}", String::from_utf8_lossy(&body));
    (StatusCode::OK, format!("taken: {id}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let mut keys = Vec::new();
    for key in std::env::var("WEBHOOK_KEYS")?.split_whitespace() {
        let secret = STANDARD.decode(key.strip_prefix("whsec_").ok_or("expected keys that begin with whsec_")?)?;
        keys.push(hmac::Key::new(hmac::HMAC_SHA256, &secret));
    }
    let receiver = Arc::new(Receiver { keys, clock: SystemClock::new() });
    let routes = TowerToHyperService::new(Router::new().fallback(any(receive)).with_state(receiver));
    let listener = tokio::net::TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), routes.clone());
        tokio::spawn(connection);
    }
}
