//! The tests of the packages in `clients`, as each language runs them. What all packages must do is in `conformance`.

use crate::common::packages::{self, clients, target};
use std::process::Command;

#[test]
fn python() {
    packages::python();
    passes("python");
}

#[test]
fn node() {
    packages::node();
    passes("node");
}

#[test]
fn php() {
    passes("php");
}

#[test]
fn laravel() {
    passes("laravel");
}

/// Runs the package's script.
fn passes(package: &str) {
    let mut command = Command::new(clients().join(package).join("test.sh"));
    command.env("CARGO_TARGET_DIR", target().parent().unwrap()).env("DUETIME_BIN", env!("CARGO_BIN_EXE_duetime"));
    let output = command.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "clients/{package}/test.sh: {}\n{said}", output.status);
}
