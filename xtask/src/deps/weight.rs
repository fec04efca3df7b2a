//! How much the library brings: who adds `duetime` to a program compiles all of it, and waits for it.

use std::collections::BTreeSet;

use crate::process;
use crate::tidy::Finding;

/// Packages that the library has with its default features, itself included.
const PACKAGES_MAX: usize = 75;
/// Packages that only other features may bring.
const ABSENT: [&str; 3] = ["hyper", "proptest", "rustls"];

/// Asks cargo what is compiled into a program: neither build scripts nor tests.
pub(super) fn check() -> Result<Vec<Finding>, String> {
    let tree = |features: &[&str]| {
        let arguments = ["tree", "--locked", "-p", "duetime", "-e", "normal", "--prefix", "none", "-f", "{p}"];
        process::output(process::cargo(arguments.iter().chain(features)))
    };
    let mut findings = judge(&tree(&[])?, PACKAGES_MAX, &ABSENT);
    // In tests of users.
    findings.extend(judge(&tree(&["--features", "testing"])?, PACKAGES_MAX, &ABSENT));
    findings.extend(judge(&tree(&["--no-default-features", "--features", "redis"])?, usize::MAX, &["libsqlite3-sys"]));
    Ok(findings)
}

fn judge(tree: &str, max: usize, absent: &[&str]) -> Vec<Finding> {
    // A package that was shown before has a mark.
    let packages: BTreeSet<&str> =
        tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty()).collect();
    let too_many = (packages.len() > max).then(|| {
        format!(
            "duetime brings {} packages, at most {max} are allowed: see `cargo tree -p duetime -e normal`",
            packages.len()
        )
    });
    let unwanted =
        absent.iter().filter(|name| packages.iter().any(|package| package.split(' ').next() == Some(**name)));
    let unwanted = unwanted.map(|name| {
        format!("duetime brings {name}: put what needs it behind another feature (`cargo tree -p duetime -i {name}`)")
    });
    let path = "crates/duetime/Cargo.toml";
    too_many.into_iter().chain(unwanted).map(|advice| Finding { path: path.into(), line: 0, advice }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "duetime v0.1.0 (/work)\nserde v1.0.0\nhyper-util v0.1.0\nserde v1.0.0 (*)\n";

    #[test]
    fn each_package_counts_once() {
        assert!(judge(TREE, 3, &["hyper"]).is_empty());
        assert!(judge(TREE, 2, &[])[0].advice.contains("brings 3 packages, at most 2"));
    }

    #[test]
    fn a_package_that_is_not_wanted_is_found() {
        assert!(
            judge(TREE, 3, &["serde", "hyper"]).iter().all(|found| found.advice.starts_with("duetime brings serde:"))
        );
        assert_eq!(judge(TREE, 3, &["serde", "hyper-util"]).len(), 2);
    }
}
