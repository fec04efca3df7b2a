//! `cargo xtask test`: all tests but the heavy ones that seldom break, on a machine that has only Rust; those are in
//! `cargo xtask outside`. The profiles in `.config/nextest.toml` say which is which.
//!
//! Both end with a line `N passed, N failed`: the tests of the workspace and of its docs, and one more failed for each
//! failed step that counts no tests.

use std::path::{Path, PathBuf};

use crate::repo::{self, Metadata};
use crate::report::{Outcome, Report, Tally};
use crate::{lint, neighbours, package, process, public, setup, sim};

/// Names the server's release binary to tests that run the real thing, so that they try what users get. A test that is run
/// without it takes the binary that cargo built beside it: so does `cargo xtask test`, which has no time for both.
pub(crate) const SERVER_BINARY: &str = "DUETIME_BIN";

/// Seeds of the simulation in a run of all tests, beside those with a kept history: a debug build is slow. `outside` runs more of them
/// in a release build.
const SEEDS: u64 = 2;
/// Seconds of interleavings on a real Redis in a run of all tests.
const INTERLEAVE_SECONDS: u64 = 60;

/// Runs everything except what [`outside`] runs; returns whether all passed.
pub(crate) fn run() -> bool {
    let mut report = Report::begin();
    // Packages are fetched and unpacked while the tests are compiled.
    let programs = std::thread::spawn(setup::install_missing);
    let mut metadata = None;
    report.needed_step("build", || {
        metadata = Some(Metadata::read()?);
        build_tests()
    });
    report.needed_step("set-up", || programs.join().map_err(|_| "set-up panicked".to_owned())?);
    if let Some(metadata) = &metadata {
        report.step("tests", || workspace_tests(metadata, "default"));
        report.step("doc tests", doc_tests);
    }
    concluded(&report, "cargo xtask test")
}

/// Runs the heavy checks that seldom break, one after another; returns whether all passed.
pub(crate) fn outside() -> bool {
    let mut report = Report::begin();
    let mut metadata = None;
    report.needed_step("set-up", || {
        metadata = Some(Metadata::read()?);
        setup::install_for_outside()
    });
    if let Some(metadata) = &metadata {
        report.step("tests", || workspace_tests(metadata, "outside"));
        report.step("release", || try_release(metadata));
        report.step("package", || package::test(server_binary(metadata)));
        report.step("scale", || sim::scale(sim::SCALE_JOBS));
        report.step("neighbours", neighbours::run);
        report.step("semver", public::semver);
        report.step("simulation", || sim::simulate(sim::SEEDS, 0));
        report.step("docs", lint::docs);
    }
    concluded(&report, "cargo xtask outside")
}

/// Pictures each page of the dashboard into `target/screenshots`, and those of the book into `docs/pictures`.
pub(crate) fn screenshots() -> Result<(), String> {
    setup::install_for_outside()?;
    let folder = Metadata::read()?.target_directory.join("screenshots");
    let mut test = process::cargo(["nextest", "run", "-p", "duetime-server", "--all-features", "--profile", "outside"]);
    test.args(["is_pictured"]).env("DUETIME_SCREENSHOTS", &folder);
    process::run(test)?;
    for entry in std::fs::read_dir(folder.join("book")).map_err(|error| format!("{}: {error}", folder.display()))? {
        let picture = entry.map_err(|error| error.to_string())?;
        let to = repo::root().join("docs/pictures").join(picture.file_name());
        std::fs::copy(picture.path(), &to).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    println!("the pictures are in {}, those of the book in docs/pictures", folder.display());
    Ok(())
}

/// Prints the steps and the lines that CI reads; returns whether all passed.
fn concluded(report: &Report, chore: &str) -> bool {
    let passed = report.finish(chore);
    let Tally { passed: tests, failed } = report.tally();
    println!("\n{tests} passed, {failed} failed");
    passed
}

/// Builds the binary that users get.
pub(crate) fn build_server() -> Result<(), String> {
    process::run(process::cargo(["build", "--release", "-p", "duetime-server"]))
}

/// Builds the binary that users get, and runs a command: some libraries check more in debug builds, and behave otherwise.
fn try_release(metadata: &Metadata) -> Result<(), String> {
    build_server()?;
    let mut demo = std::process::Command::new(server_binary(metadata));
    demo.arg("demo");
    process::run(demo)
}

/// The path where [`build_server`] puts it.
pub(crate) fn server_binary(metadata: &Metadata) -> PathBuf {
    metadata.target_directory.join("release/duetime")
}

fn build_tests() -> Result<(), String> {
    let tool: &[&str] = if setup::has_nextest() { &["nextest", "run"] } else { &["test"] };
    process::run(process::cargo(tool.iter().chain(&["--workspace", "--all-features", "--no-run"])))
}

/// Runs the tests of a profile of nextest (`.config/nextest.toml`).
fn workspace_tests(metadata: &Metadata, profile: &str) -> Outcome {
    let mut command = if setup::has_nextest() {
        process::cargo(["nextest", "run", "--workspace", "--all-features", "--profile", profile])
    } else {
        println!(
            "notice: cargo-nextest is not installed (https://nexte.st); `cargo test` runs all tests, slower and without time limits"
        );
        // Tests run examples, which cargo builds along only if no target is selected.
        if let Err(error) = process::run(process::cargo(["build", "--workspace", "--all-features", "--examples"])) {
            return Err(error).into();
        }
        process::cargo(["test", "--workspace", "--all-features", "--no-fail-fast", "--lib", "--bins", "--tests"])
    };
    command.env(sim::INTERLEAVE_SECONDS, INTERLEAVE_SECONDS.to_string()).env(sim::SIM_SEEDS, SEEDS.to_string());
    if setup::has_nextest() { nextest(command, metadata, profile) } else { libtest(command) }
}

/// Counts from the JUnit file, so that nextest keeps the terminal for itself. The error has each failed test with its
/// message: a summary of a long run shows what failed.
fn nextest(command: std::process::Command, metadata: &Metadata, profile: &str) -> Outcome {
    let junit = metadata.target_directory.join("nextest").join(profile).join("junit.xml");
    let result = forget(&junit).and_then(|()| process::run(command));
    let xml = std::fs::read_to_string(&junit).unwrap_or_default();
    match (junit_tally(&xml), result) {
        (None, Ok(())) => Err(format!("expected nextest's counts in {}, found none", junit.display())).into(),
        (tally, result) => Outcome {
            tally: tally.unwrap_or_default(),
            result: result.map_err(|error| format!("{error}{}", junit_failures(&xml))),
        },
    }
}

/// Removes the counts of an earlier run, so that a failing build does not show them.
fn forget(junit: &Path) -> Result<(), String> {
    match std::fs::remove_file(junit) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", junit.display()))
        }
        _ => Ok(()),
    }
}

fn doc_tests() -> Outcome {
    libtest(process::cargo(["test", "--workspace", "--all-features", "--no-fail-fast", "--doc"]))
}

/// Runs what reports as Rust's own test harness does.
fn libtest(command: std::process::Command) -> Outcome {
    let mut tally = Tally::default();
    let result = process::run_watched(command, |line| tally += libtest_tally(line).unwrap_or_default());
    Outcome { tally, result }
}

/// Reads `<testsuites ... tests="12" failures="1" errors="0" ...>`.
fn junit_tally(xml: &str) -> Option<Tally> {
    let element = xml.split_once("<testsuites ")?.1.split_once('>')?.0;
    let count = |name: &str| -> Option<u64> {
        let value = element.split_once(&format!("{name}=\""))?.1.split_once('"')?.0;
        value.parse().ok()
    };
    let failed = count("failures")? + count("errors")?;
    Some(Tally { passed: count("tests")?.checked_sub(failed)?, failed })
}

/// Reads `<testcase name="..." classname="..." ...>` with a `<failure ...>` or `<error ...>`: a line for each name, and below it
/// what the test said before its backtrace.
fn junit_failures(xml: &str) -> String {
    let mut failures = String::new();
    for case in xml.split("<testcase name=\"").skip(1) {
        let Some((_, failure)) = case.split_once("<failure ").or_else(|| case.split_once("<error ")) else { continue };
        let name = case.split_once('"').map_or("", |(name, _)| name);
        let text = failure.split_once('>').and_then(|(_, text)| text.split_once("</")).map_or("", |(text, _)| text);
        let text = text.split("stack backtrace:").next().unwrap_or_default().trim_end();
        failures.push_str(&format!("\n    {name}\n        {}", text.replace('\n', "\n        ")));
    }
    for (entity, character) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")] {
        failures = failures.replace(entity, character);
    }
    failures
}

/// Reads `test result: ok. 12 passed; 0 failed; ...`.
fn libtest_tally(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let (passed, rest) = counts.split_once(" passed; ")?;
    let (failed, _) = rest.split_once(" failed")?;
    Some(Tally { passed: passed.parse().ok()?, failed: failed.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextest_counts_are_read() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="12" failures="2" errors="1" uuid="0" time="0.5">
    <testsuite name="xtask" tests="12" disabled="0" errors="0" failures="0">"#;
        assert_eq!(junit_tally(xml), Some(Tally { passed: 9, failed: 3 }));
        assert_eq!(junit_tally("<testsuites name=\"\">"), None);
        assert_eq!(junit_tally(""), None);
    }

    #[test]
    fn failed_tests_are_named_with_their_messages() {
        let xml = r#"
        <testcase name="a::passes" classname="all" time="0.011"/>
        <testcase name="a::fails" classname="all" time="0.168">
            <failure message="thread &apos;fails&apos;" type="exit code 101">thread &apos;fails&apos; panicked:
  left: &lt;1&gt;
stack backtrace:
   0: somewhere</failure>
            <system-err>thread &apos;fails&apos; panicked:</system-err>
        </testcase>
        <testcase name="a::hangs" classname="all" time="600"><failure type="test timeout"/></testcase>"#;
        let expected = "\n    a::fails\n        thread 'fails' panicked:\n          left: <1>\n    a::hangs\n        ";
        assert_eq!(junit_failures(xml), expected);
    }

    #[test]
    fn libtest_counts_are_read() {
        let ok = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(libtest_tally(ok), Some(Tally { passed: 3, failed: 0 }));
        let failed = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(libtest_tally(failed), Some(Tally { passed: 3, failed: 2 }));
        assert_eq!(libtest_tally("test tests::a ... ok"), None);
    }
}
