//! `duetime doctor`: looks at everything that a server depends on, changes nothing, and says what to do.
//!
//! It opens no store as a server does: it only reads a file that nobody has open, and asks Redis and SQL servers only what any client may ask. This module
//! and its siblings judge the results; the code they call only returns facts.

mod disk;
mod finding;
mod limits;
mod server;
mod store;
mod zones;

use super::config::wrong;
use super::exit::{ERROR, Failure, Result};
use super::output;
use crate::config::Settings;
use crate::serve;
use finding::{Finding, Status};
use serde_json::json;
use std::path::PathBuf;

/// Check the setup of a server, and say how to fix what is wrong.
///
/// Checks the configuration, the store, the server, clocks, limits, the disk and the time zones. It changes nothing. It
/// takes the same options and variables as `duetime serve`. It asks the server only what needs no token.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(mut_arg("test", |arg| arg.hide(true)))]
#[command(after_help = "Examples:
  duetime doctor --config /etc/duetime/duetime.toml
  duetime doctor --broker redis://queue --ledger postgres://duetime@db/jobs --json

Exit codes: 0 no problem, perhaps warnings; 1 a problem.")]
pub(crate) struct Args {
    /// Server to check; by default the configured one
    #[arg(long, value_name = "URL", env = "DUETIME_SERVER")]
    server: Option<String>,
    /// Additional root certificate (PEM) to trust for https:// servers
    #[arg(long, value_name = "FILE", env = "DUETIME_CA")]
    ca: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Options of `duetime serve`")]
    serve: serve::Args,
}

pub(crate) async fn run(args: Args, settings: &Settings) -> Result {
    let mut findings = configuration(settings, &args.serve);
    let server =
        server::probe(args.server.as_deref().filter(|url| !url.is_empty()), args.ca.clone(), &args.serve).await;
    let store = store::probe(&args.serve, server.answers).await;
    findings.extend(store.findings);
    findings.extend(server.findings);
    findings.extend(store.clocks.findings());
    findings.extend(serve::delivery_troubles(&args.serve).await.into_iter().map(|why| {
        let advice = "start it, or correct its URL in --deliver-redis; a password stands before the host: redis://:PASSWORD@host";
        Finding::warning("deliveries", why, advice)
    }));
    findings.push(limits::probe(args.serve.http.connections_max));
    findings.extend(store.folder.and_then(|(folder, bytes)| disk::probe(&folder, bytes)));
    findings.push(zones::probe());
    tell(&findings, args.json)
}

fn configuration(settings: &Settings, args: &serve::Args) -> Vec<Finding> {
    const CHECK: &str = "configuration";
    let advice = "correct it; `duetime config example` prints all keys with their defaults";
    let mut findings: Vec<_> =
        wrong(settings, args).iter().map(|wrong| Finding::problem(CHECK, &*wrong.text, advice)).collect();
    for what in &settings.aside {
        findings.push(Finding::warning(CHECK, what, "remove one of the two"));
    }
    if findings.is_empty() {
        let file = settings.file.as_ref().map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
        findings.push(Finding::ok(CHECK, format!("all options are valid ({file})")));
    }
    findings
}

fn tell(findings: &[Finding], json: bool) -> Result {
    let is_well = findings.iter().all(|finding| finding.status != Status::Problem);
    if json {
        output::json(&json!({ "ok": is_well, "version": env!("CARGO_PKG_VERSION"), "findings": findings }))?;
    } else {
        let mut table = output::table(&["", "CHECK", "FINDING"]);
        for finding in findings {
            let advice = finding.advice.as_ref().map(|advice| format!("\n-> {}", output::safe(advice)));
            let text = format!("{}{}", output::safe(&finding.finding), advice.unwrap_or_default());
            table.add_row([finding.status.cell(), finding.check.into(), text.into()]);
        }
        output::print(&table)?;
    }
    if is_well { Ok(()) } else { Err(Failure::quiet(ERROR)) }
}
