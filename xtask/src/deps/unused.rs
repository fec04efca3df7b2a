//! A dependency that no source names is not used: neither by a package, nor in the workspace's table.
//!
//! Looks for paths that begin with the crate's name in the package's Rust files, comments and strings apart. A crate
//! that is used without being named (only its features are wanted, say) goes on the list.

use std::collections::BTreeSet;

use crate::repo::{self, Metadata, Source};
use crate::tidy::{Finding, Masked};

/// Dependencies that are used without being named: package, dependency, why.
const ALLOWED: &[(&str, &str, &str)] = &[];

const ROOT: &str = "Cargo.toml";

/// The parts of a package's manifest that the check needs.
pub(super) struct Manifest {
    pub(super) package: String,
    /// Its folder relative to the root, with `/` at the end.
    pub(super) folder: String,
    /// Names of its dependencies as its sources know them, with `-` as in the manifest.
    pub(super) dependencies: BTreeSet<String>,
}

/// The packages of the workspace.
pub(super) fn manifests(metadata: &Metadata) -> Vec<Manifest> {
    let manifest = |package: &repo::Package| {
        let folder = package.manifest_path.parent()?.strip_prefix(repo::root().canonicalize().ok()?).ok()?;
        // A package that depends on itself does so to switch its own features on in its tests.
        let others = package.dependencies.iter().filter(|dependency| dependency.name != package.name);
        Some(Manifest {
            package: package.name.clone(),
            folder: format!("{}/", folder.display()),
            dependencies: others.map(|dependency| dependency.local_name().to_owned()).collect(),
        })
    };
    metadata.members().filter_map(manifest).collect()
}

/// Dependencies that are stated and not used.
pub(super) fn check(manifests: &[Manifest], sources: &[Source]) -> Vec<Finding> {
    let mut findings: Vec<_> = manifests.iter().flat_map(|manifest| unused_by(manifest, sources)).collect();
    let used: BTreeSet<_> = manifests.iter().flat_map(|manifest| &manifest.dependencies).map(String::as_str).collect();
    let text = sources.iter().find(|source| source.path == ROOT).map_or("", |source| source.text.as_str());
    let names = workspace_table(text).into_iter().filter(|name| !used.contains(name.as_str()));
    findings.extend(names.map(|name| Finding {
        path: ROOT.into(),
        line: line_of(text, &name),
        advice: format!("no package uses `{name}`: remove it from [workspace.dependencies]"),
    }));
    findings
}

fn unused_by(manifest: &Manifest, sources: &[Source]) -> Vec<Finding> {
    let path = format!("{}Cargo.toml", manifest.folder);
    let is_ours = |source: &&Source| source.path.starts_with(&manifest.folder) && source.path.ends_with(".rs");
    let code: Vec<_> = sources.iter().filter(is_ours).map(|source| Masked::new(&source.text)).collect();
    let text = sources.iter().find(|source| source.path == path).map_or("", |source| source.text.as_str());
    let is_allowed =
        |name: &str| ALLOWED.iter().any(|(package, other, _)| *package == manifest.package && *other == name);
    let is_used = |name: &str| code.iter().any(|masked| names_crate(masked, &name.replace('-', "_")));
    let unused = manifest.dependencies.iter().filter(|name| !is_used(name) && !is_allowed(name));
    let finding = |name: &String| Finding {
        path: path.clone(),
        line: line_of(text, name),
        advice: format!(
            "no source of {} names `{name}`: remove it, or allow it with a reason in xtask/src/deps/unused.rs",
            manifest.package
        ),
    };
    unused.map(finding).collect()
}

/// Whether the code has a path that begins with the crate, or a `use` of it.
fn names_crate(masked: &Masked, name: &str) -> bool {
    let (text, is_path) = (masked.text(), |rest: &str| rest.trim_start().starts_with("::"));
    masked.words(name).any(|at| is_path(&text[at + name.len()..]) || text[..at].trim_end().ends_with("use"))
}

/// The names in the workspace's table.
fn workspace_table(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = toml::from_str(manifest).unwrap_or_default();
    let table = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
    table.into_iter().flat_map(toml::Table::keys).cloned().collect()
}

/// The line of a manifest that a dependency begins, or 0.
fn line_of(manifest: &str, name: &str) -> usize {
    manifest.lines().position(|line| line.starts_with(name)).map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    fn manifest(dependencies: &[&str]) -> Manifest {
        let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
        Manifest { package: "a".into(), folder: "crates/a/".into(), dependencies }
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let sources = [
            source("crates/a/Cargo.toml", "[dependencies]\nserde-json = \"1\"\ntokio = \"1\"\nbytes = \"1\"\n"),
            source("crates/a/src/lib.rs", "use serde_json::Value; // tokio::net\nlet bytes = my_bytes::new();"),
            source("crates/b/src/lib.rs", "use tokio::net;"),
        ];
        let findings = check(&[manifest(&["bytes", "serde-json", "tokio"])], &sources);
        let lines: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [4, 3]);
    }

    #[test]
    fn a_row_that_no_package_uses_is_found() {
        let text = "[workspace.dependencies]\na = \"1\"\n# c = \"1\"\nb.version = \"1\"\n\n[profile.dev]\nd = 1\n";
        let sources = [source("Cargo.toml", text), source("crates/a/src/lib.rs", "use b::B;")];
        let findings = check(&[manifest(&["b"])], &sources);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
    }
}
