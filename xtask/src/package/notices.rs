//! The licences of the crates in the binary, which their authors want to be shown beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::PACKAGE;
use crate::process;
use crate::repo::{Metadata, Package};

/// Names of files with licences and notices begin with one of these, in capitals.
const FILES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const RULE: &str = "\n================================================================================\n";

/// A list of crates, and then each text once, with the crates that it is of.
pub(super) fn all(metadata: &Metadata, target: &str) -> Result<String, String> {
    let arguments = ["tree", "--locked", "-p", PACKAGE, "--edges", "normal,no-proc-macro", "--prefix", "none"];
    let tree = process::output(process::cargo(arguments.iter().chain(&["--format", "{p}", "--target", target])))?;
    let linked = names(&tree);
    let is_linked = |package: &&Package| {
        linked.contains(&(package.name.as_str(), package.version.as_str())) && package.source.is_some()
    };
    let mut list = String::from(
        "Duetime contains these libraries. SQLite, which is in the public domain, comes with libsqlite3-sys.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata.packages.iter().filter(is_linked) {
        let Package { name, version, license, .. } = package;
        let license = license.as_deref().ok_or_else(|| format!("expected a licence of {name}, found none"))?;
        list += &format!("{name} {version}: {license}\n");
        for text in licences(package)? {
            texts.entry(text).or_default().push(format!("{name} {version}"));
        }
    }
    for (text, crates) in texts {
        list += &format!("{RULE}{}\n\n{text}\n", crates.join(", "));
    }
    Ok(list)
}

/// Names and versions in the output of `cargo tree`: `serde v1.0.228`, also with `(*)` or more after it.
fn names(tree: &str) -> BTreeSet<(&str, &str)> {
    let lines = tree.lines().filter_map(|line| line.split_once(" v"));
    lines.map(|(name, rest)| (name, rest.split(' ').next().unwrap_or_default())).collect()
}

/// The texts of a crate's licences.
fn licences(package: &Package) -> Result<Vec<String>, String> {
    let folder = package.manifest_path.parent().unwrap_or(&package.manifest_path);
    let unread = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && FILES.iter().any(|start| name.starts_with(start)) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    paths.iter().map(|path| Ok(String::from_utf8_lossy(&fs::read(path).map_err(unread)?).trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_read() {
        let tree = "duetime-server v0.1.0 (/work/crates/server)\nserde v1.0.228\nserde v1.0.228 (*)\n\n";
        assert_eq!(names(tree), [("duetime-server", "0.1.0"), ("serde", "1.0.228")].into());
    }
}
