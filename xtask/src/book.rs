//! `cargo xtask book`: regenerates the generated pages of the book, and builds the book if mdBook is installed.

use std::process::Command;

use crate::{process, repo};

/// The tests that compare the generated pages; with this variable they write them.
const GENERATED: &str = "book::generated";
const WRITE: (&str, &str) = ("GOLDEN", "write");

pub(crate) fn run() -> Result<(), String> {
    let mut write = process::cargo(["test", "--workspace", "--all-features", "--test", "all", "--", GENERATED]);
    write.env(WRITE.0, WRITE.1);
    process::run(write)?;
    let mut version = Command::new("mdbook");
    version.arg("--version");
    if !process::succeeds(version) {
        println!("notice: mdBook is not installed (cargo install mdbook): only the generated pages were written");
        return Ok(());
    }
    let mut build = Command::new("mdbook");
    build.arg("build").current_dir(repo::root());
    process::run(build)
}
