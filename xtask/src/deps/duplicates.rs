//! A crate in two versions is compiled twice, and its types do not fit each other.

use std::collections::BTreeMap;

use crate::tidy::Finding;

/// Crates that may stand in more than one version, and why. An entry that has become needless is a finding too.
pub(super) const ALLOWED: &[(&str, &str)] = &[
    ("block-buffer", "with sha2"),
    ("const-oid", "with sha2"),
    ("cpufeatures", "with sha2"),
    ("crypto-common", "with sha2"),
    ("digest", "with sha2"),
    ("fallible-iterator", "0.2 is that of tokio-postgres, 0.3 that of rusqlite"),
    ("getrandom", "0.3 is ours, tempfile and proptest have moved to 0.4"),
    ("hashbrown", "0.16 is that of rusqlite, 0.17 of the rest"),
    ("sha2", "0.10 is that of mysql_async and of certificates, 0.11 that of tokio-postgres"),
    ("syn", "derive macros are moving from 2 to 3 one by one; none of it is in the binary"),
];

/// `packages` are names and versions, each once.
pub(super) fn check(packages: &[(&str, &str)], allowed: &[(&str, &str)]) -> Vec<Finding> {
    let mut versions = BTreeMap::<&str, Vec<&str>>::new();
    for (name, version) in packages {
        versions.entry(name).or_default().push(version);
    }
    let is_allowed = |name: &str| allowed.iter().any(|(other, _)| *other == name);
    let twice = versions.iter().filter(|(name, versions)| versions.len() > 1 && !is_allowed(name)).map(|(name, versions)| {
        let versions = versions.join(", ");
        format!("{name} stands here in versions {versions}: see `cargo tree -d`, agree on one, or allow it with a reason in xtask/src/deps/duplicates.rs")
    });
    let once = allowed.iter().filter(|(name, _)| versions.get(name).is_none_or(|versions| versions.len() < 2));
    let needless = once
        .map(|(name, _)| format!("{name} stands here once or not at all: remove it from xtask/src/deps/duplicates.rs"));
    twice.chain(needless).map(|advice| Finding { path: "Cargo.lock".into(), line: 0, advice }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_version_is_found() {
        let findings = check(&[("a", "1.0.0"), ("b", "1.0.0"), ("a", "2.0.0")], &[]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].advice.contains("a stands here in versions 1.0.0, 2.0.0"), "{}", findings[0]);
    }

    #[test]
    fn an_allowed_second_version_is_not() {
        assert!(check(&[("a", "1.0.0"), ("a", "2.0.0")], &[("a", "because")]).is_empty());
    }

    #[test]
    fn a_needless_allowance_is_found() {
        assert_eq!(check(&[("a", "1.0.0")], &[("a", "because"), ("b", "because")]).len(), 2);
    }
}
