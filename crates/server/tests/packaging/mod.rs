//! The files in `packaging/` match this server: names of metrics, variables and programs, and rules that their own
//! programs accept.
//!
//! `cargo xtask package test` installs the package and starts the image. No compose file is started.

mod image;
mod metrics;
mod server;
mod service;

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A file of `packaging/`.
fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging")).join(name)
}

fn read(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a program that must succeed; returns its output.
fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: cargo xtask setup installs it"));
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ran.status.success(), "{command:?}: {said}");
    said
}

/// YAML as JSON.
fn yaml(text: &str) -> Value {
    let program = "import json, sys, yaml; json.dump(yaml.safe_load(sys.argv[1]), sys.stdout)";
    let json = run(Command::new("/usr/bin/python3").args(["-c", program, text]));
    serde_json::from_str(&json).unwrap()
}

/// The variables that `duetime serve` knows.
fn variables() -> Vec<String> {
    let help = run(Command::new(env!("CARGO_BIN_EXE_duetime")).args(["serve", "--help"]));
    let names = help.split("[env: ").skip(1);
    let names: Vec<String> = names.map(|rest| rest.split(['=', ']']).next().unwrap().to_owned()).collect();
    assert!(names.len() > 5, "{names:?}");
    names
}
