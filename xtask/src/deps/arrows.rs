//! Checks which crates of ours depend on which, and that the core depends on nothing outside.
//!
//! The compiler forbids circles and no more; these are the arrows of ARCHITECTURE.md. Dependencies of tests count as
//! well: a test that needs another crate of ours belongs there.

use crate::repo::Package;
use crate::tidy::Finding;

/// A crate, and the crates of ours that it may depend on. The core names itself to switch its feature `testing` on in
/// its own tests.
const ARROWS: [(&str, &[&str]); 6] = [
    ("duetime-core", &["duetime-core"]),
    ("duetime-store", &["duetime-core"]),
    ("duetime-derive", &[]),
    ("duetime", &["duetime-core", "duetime-derive", "duetime-store"]),
    ("duetime-server", &["duetime", "duetime-core", "duetime-store"]),
    ("xtask", &[]),
];

/// Crates that speak SQL, HTTP or to a socket: the core knows none of it. A `-` or `_` and more may follow.
const OUTSIDE: &[&str] = &[
    "axum",
    "deadpool",
    "diesel",
    "http",
    "hyper",
    "libsqlite3",
    "mysql",
    "postgres",
    "redis",
    "reqwest",
    "rusqlite",
    "rustls",
    "sea-orm",
    "socket2",
    "sqlx",
    "tiberius",
    "tokio-postgres",
    "tokio-rustls",
    "tonic",
    "tower-http",
    "tungstenite",
    "ureq",
];

/// Dependencies of our packages that are against the arrows.
pub(super) fn check(members: &[&Package]) -> Vec<Finding> {
    let is_ours = |name: &str| members.iter().any(|package| package.name == name);
    let of = |package: &&Package| {
        let names = package.dependencies.iter().map(|dependency| dependency.name.as_str());
        let advice = names.filter_map(|name| judge(&package.name, name, is_ours(name)));
        let path = package.manifest_path.display().to_string();
        advice.map(|advice| Finding { path: path.clone(), line: 0, advice }).collect::<Vec<_>>()
    };
    members.iter().flat_map(of).collect()
}

fn judge(package: &str, name: &str, is_ours: bool) -> Option<String> {
    let (_, allowed) = ARROWS.iter().find(|(other, _)| *other == package)?;
    if is_ours && !allowed.contains(&name) {
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        let expected = format!("expected of our crates only {allowed} here, got `{name}`");
        return Some(format!("{expected}: move the code to where the arrow allows it"));
    }
    let is_outside = package == ARROWS[0].0 && OUTSIDE.iter().any(|outside| is_or_extends(name, outside));
    is_outside.then(|| format!("the core knows no SQL, sockets or HTTP, got `{name}`: put this behind a port"))
}

fn is_or_extends(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Dependency;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|&name| Dependency { name: name.to_owned(), rename: None });
        Package {
            id: name.into(),
            name: name.into(),
            version: "1.0.0".into(),
            license: None,
            source: None,
            manifest_path: format!("{name}/Cargo.toml").into(),
            dependencies: dependencies.collect(),
        }
    }

    fn wrong(packages: &[Package]) -> Vec<String> {
        let findings = check(&packages.iter().collect::<Vec<_>>()).into_iter();
        findings.filter_map(|finding| Some(finding.advice.split('`').nth(1)?.to_owned())).collect()
    }

    #[test]
    fn a_crate_may_depend_only_along_the_arrows() {
        let both = ["duetime-core", "duetime-store", "serde"];
        let names = ["duetime-core", "duetime-store", "duetime", "xtask"];
        assert_eq!(
            wrong(&names.map(|name| package(name, &both))),
            ["duetime-store", "duetime-store", "duetime-core", "duetime-store"]
        );
    }

    #[test]
    fn the_core_depends_on_nothing_outside() {
        let names = ["rusqlite", "hyper-util", "httpdate", "serde"];
        assert_eq!(wrong(&[package("duetime-core", &names)]), ["rusqlite", "hyper-util"]);
        assert_eq!(wrong(&[package("duetime-store", &names)]), [""; 0]);
    }
}
