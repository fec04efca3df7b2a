//! Whether a server answers, which version it is, and how it is.

use super::finding::Finding;
use crate::serve;
use duetime::server::Cause;
use duetime::{Client, ConnectOptions, Error};
use duetime_core::api::DegradedCode;
use std::path::PathBuf;
use std::time::Duration;

const CHECK: &str = "server";
/// Time limit for its answer.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// The results of the probe.
pub(super) struct ServerProbe {
    pub(super) findings: Vec<Finding>,
    /// The URL at which a server answers.
    pub(super) answers: Option<String>,
}

/// Asks the named server, or the one at the address of the configuration.
pub(super) async fn probe(named: Option<&str>, ca: Option<PathBuf>, args: &serve::Args) -> ServerProbe {
    let Some(url) = named.map(str::to_owned).or_else(|| usual(args)) else {
        let text = "the address is unknown because --listen has port 0";
        return ServerProbe { findings: vec![Finding::ok(CHECK, text)], answers: None };
    };
    match ask(&url, ca).await {
        Ok(findings) => ServerProbe { findings, answers: Some(url) },
        // No option named this server, so it need not run.
        Err(error) if named.is_none() && matches!(error.cause(), Cause::Unreachable { .. }) => {
            ServerProbe { findings: vec![Finding::ok(CHECK, format!("no server runs at {url}"))], answers: None }
        }
        Err(error) => {
            let advice = "start one with `duetime serve`, or name its address with --server";
            ServerProbe { findings: vec![Finding::problem(CHECK, error.to_string(), advice)], answers: None }
        }
    }
}

/// The URL of a server with this configuration, as seen from this machine.
fn usual(args: &serve::Args) -> Option<String> {
    let scheme = if args.http.tls_cert.is_some() { "https" } else { "http" };
    let address = args.reached_at();
    (address.port() != 0).then(|| format!("{scheme}://{address}"))
}

async fn ask(url: &str, ca: Option<PathBuf>) -> Result<Vec<Finding>, Error> {
    let mut options = ConnectOptions::default();
    options.time_limit = TIME_LIMIT;
    options.root_certificates = ca;
    let client = Client::connect_with(url, options).await?;
    let version = client.version().await?;
    let health = client.health().await?;
    let ours = env!("CARGO_PKG_VERSION");
    let mut findings = Vec::new();
    match version.as_deref() {
        Some(version) if version == ours => {
            findings.push(Finding::ok(CHECK, format!("{url} answers, version {version}")));
        }
        version => {
            let text =
                format!("the server at {url} has version {}, this program has {ours}", version.unwrap_or("unknown"));
            findings.push(Finding::warning(CHECK, text, "use the same version for both; upgrade the server first"));
        }
    }
    if !health.ready {
        let advice = "see its log; it continues on its own once its store answers";
        findings.push(Finding::problem(CHECK, "the server hands out no jobs", advice));
    }
    for what in &health.degraded {
        findings.push(match what.code {
            DegradedCode::StoreDamaged => Finding::problem(
                CHECK,
                what.to_string(),
                "stop it and keep a copy, then restore a backup or salvage the store",
            ),
            _ => {
                Finding::warning(CHECK, what.to_string(), "see its log; it recovers on its own once the cause is gone")
            }
        });
    }
    if !health.is_loaded {
        let text = format!("the server is still loading jobs after its start: {} so far", health.loaded);
        findings.push(Finding::warning(CHECK, text, "wait; nothing is lost"));
    }
    if health.ready && health.is_loaded && health.degraded.is_empty() {
        findings.push(Finding::ok(CHECK, "the server hands out jobs"));
    }
    Ok(findings)
}
