//! `cargo xtask lint`: all that is checked without running the product.

use crate::repo::Metadata;
use crate::report::{Outcome, Report};
use crate::tidy::Finding;
use crate::{clients, deps, process, public, repo, size, tidy};

/// Runs all checks, the quick ones first; returns whether all passed.
pub(crate) fn run() -> bool {
    let mut report = Report::begin();
    report.step("format", || process::run(process::cargo(["fmt", "--all", "--check"])));
    report.step("tidy", check_tidy);
    report.step("size", size::print);
    report.step("dependencies", check_deps);
    report.step("clippy", clippy);
    report.step("clients", || clients::check(&Metadata::read()?));
    report.step("public items", public::run);
    report.finish("cargo xtask lint")
}

/// Runs the tidy checks alone.
pub(crate) fn run_tidy() -> bool {
    let mut report = Report::begin();
    report.step("tidy", check_tidy);
    report.finish("cargo xtask tidy")
}

/// Runs the dependency checks alone.
pub(crate) fn run_deps() -> bool {
    let mut report = Report::begin();
    report.step("dependencies", check_deps);
    report.finish("cargo xtask deps")
}

fn check_tidy() -> Outcome {
    repo::sources().and_then(|sources| judged(&tidy::check(&sources)?)).into()
}

fn check_deps() -> Outcome {
    let findings = || -> Result<_, String> { deps::check(&Metadata::read()?, &repo::sources()?) };
    findings().and_then(|findings| judged(&findings)).into()
}

fn clippy() -> Result<(), String> {
    process::run(process::cargo(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]))
}

/// Of binaries and the server, private items too: they have hardly any others. [`public::run`] writes the pages of the other libraries.
pub(crate) fn docs() -> Result<(), String> {
    let common = ["--no-deps", "--all-features", "--document-private-items"].as_slice();
    doc(&[["doc", "--workspace", "--bins"].as_slice(), common].concat())?;
    doc(&[["doc", "-p", "duetime-server", "--lib"].as_slice(), common].concat())
}

/// Writes pages; a warning fails.
pub(crate) fn doc(arguments: &[&str]) -> Result<(), String> {
    let mut command = process::cargo(arguments);
    command.env("RUSTDOCFLAGS", "-D warnings");
    process::run(command)
}

/// Prints all findings; one is enough to fail.
fn judged(findings: &[Finding]) -> Result<(), String> {
    for finding in findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err("1 finding".to_owned()),
        n => Err(format!("{n} findings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_finding_fails() {
        assert!(judged(&[]).is_ok());
        let finding = Finding { path: "a.rs".into(), line: 3, advice: "do better".into() };
        assert_eq!(finding.to_string(), "a.rs:3: do better");
        assert!(judged(&[finding]).is_err());
    }
}
