//! No crate comes from an unknown place, and none is present that the policy denies.

use semver::{Version, VersionReq};

use super::policy::{Entry, PATH};
use crate::tidy::Finding;

/// `packages` are names and versions.
pub(super) fn check(packages: &[(&str, &str)], deny: &[Entry]) -> Vec<Finding> {
    deny.iter()
        .flat_map(|entry| match parse(&entry.spec) {
            Ok((name, requirement)) => present(packages, name, &requirement, &entry.reason),
            Err(error) => {
                vec![finding(PATH, format!("`{}` is no crate with a version requirement: {error}", entry.spec))]
            }
        })
        .collect()
}

/// `packages` are names and sources, `None` for a path of this repository.
pub(super) fn check_sources(packages: &[(&str, Option<&str>)], allowed: &[String]) -> Vec<Finding> {
    let is_allowed =
        |source: &str| source.strip_prefix("registry+").is_some_and(|url| allowed.iter().any(|allowed| allowed == url));
    let foreign = packages.iter().filter_map(|(name, source)| Some((name, (*source)?)));
    foreign
        .filter(|(_, source)| !is_allowed(source))
        .map(|(name, source)| finding("Cargo.lock", format!("{name} comes from {source}, which {PATH} does not allow")))
        .collect()
}

/// A name and a requirement: `name`, or `name@<1.2.3, >=1.0.0`.
fn parse(spec: &str) -> Result<(&str, VersionReq), semver::Error> {
    match spec.split_once('@') {
        Some((name, requirement)) => Ok((name, VersionReq::parse(requirement)?)),
        None => Ok((spec, VersionReq::STAR)),
    }
}

fn present(packages: &[(&str, &str)], name: &str, denied: &VersionReq, reason: &str) -> Vec<Finding> {
    let matches = |version: &str| Version::parse(version).is_ok_and(|version| denied.matches(&version));
    let found = packages.iter().filter(|(other, version)| *other == name && matches(version));
    found.map(|(_, version)| finding("Cargo.lock", format!("{name} {version} is denied: {reason}"))).collect()
}

fn finding(path: &str, advice: String) -> Finding {
    Finding { path: path.into(), line: 0, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deny(spec: &str) -> [Entry; 1] {
        [Entry { spec: spec.into(), reason: "it hangs".into() }]
    }

    #[test]
    fn a_denied_version_is_found_and_others_are_not() {
        let packages = [("a", "1.54.0"), ("a", "1.54.1"), ("b", "1.0.0")];
        let findings = check(&packages, &deny("a@<1.54.1"));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].advice.contains("a 1.54.0 is denied: it hangs"), "{}", findings[0]);
        assert_eq!(check(&packages, &deny("a@>=1.54.0, <1.54.2")).len(), 2);
        assert_eq!(check(&packages, &deny("b")).len(), 1);
        assert_eq!(check(&packages, &deny("c")).len(), 0);
    }

    #[test]
    fn a_requirement_that_cannot_be_read_is_found() {
        assert_eq!(check(&[], &deny("a@new")).len(), 1);
    }

    #[test]
    fn a_foreign_source_is_found() {
        let allowed = ["https://registry.test/index".to_owned()];
        let packages = [
            ("ours", None),
            ("a", Some("registry+https://registry.test/index")),
            ("b", Some("registry+https://elsewhere.test/index")),
            ("c", Some("git+https://registry.test/index")),
        ];
        assert_eq!(check_sources(&packages, &allowed).len(), 2);
    }
}
