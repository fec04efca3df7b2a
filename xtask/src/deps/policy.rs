//! The dependency policy: what `deny.toml` says, in the format of cargo-deny.
//!
//! Only the keys that the checks of this folder enforce are read.

use serde::Deserialize;

/// The file that holds it.
pub(super) const PATH: &str = "deny.toml";

#[derive(Debug, Deserialize)]
pub(super) struct Policy {
    pub(super) licenses: Licenses,
    pub(super) sources: Sources,
    pub(super) bans: Bans,
}

#[derive(Debug, Deserialize)]
pub(super) struct Licenses {
    /// SPDX names.
    pub(super) allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Sources {
    /// URLs of registries.
    pub(super) allow_registry: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Bans {
    /// Crates that may be present in more than one version.
    pub(super) skip: Vec<Entry>,
    /// Crates, or versions of them, that may not be present.
    pub(super) deny: Vec<Entry>,
}

/// A crate, with `@` and a version requirement unless all versions are meant.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "crate")]
    pub(super) spec: String,
    pub(super) reason: String,
}

impl Policy {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| format!("{PATH}: {error}"))
    }
}
