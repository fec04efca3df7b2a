//! A crate in two versions is compiled twice, and its types do not fit each other.

use std::collections::BTreeMap;

use super::policy::PATH;
use crate::tidy::Finding;

/// `packages` are names and versions, each once.
pub(super) fn check(packages: &[(&str, &str)], allowed: &[&str]) -> Vec<Finding> {
    let mut versions = BTreeMap::<&str, Vec<&str>>::new();
    for (name, version) in packages {
        versions.entry(name).or_default().push(version);
    }
    let is_allowed = |name: &str| allowed.contains(&name);
    let twice = versions.iter().filter(|(name, versions)| versions.len() > 1 && !is_allowed(name)).map(|(name, versions)| {
        let versions = versions.join(", ");
        format!("{name} is present in versions {versions}: see `cargo tree -d`, agree on one, or add it with a reason to `skip` in {PATH}")
    });
    let once = allowed.iter().filter(|name| versions.get(*name).is_none_or(|versions| versions.len() < 2));
    let needless = once.map(|name| format!("{name} is present once or not at all: remove it from `skip` in {PATH}"));
    twice.chain(needless).map(|advice| Finding { path: "Cargo.lock".into(), line: 0, advice }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_version_is_found() {
        let findings = check(&[("a", "1.0.0"), ("b", "1.0.0"), ("a", "2.0.0")], &[]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].advice.contains("a is present in versions 1.0.0, 2.0.0"), "{}", findings[0]);
    }

    #[test]
    fn an_allowed_second_version_is_not() {
        assert!(check(&[("a", "1.0.0"), ("a", "2.0.0")], &["a"]).is_empty());
    }

    #[test]
    fn a_needless_allowance_is_found() {
        assert_eq!(check(&[("a", "1.0.0")], &["a", "b"]).len(), 2);
    }
}
