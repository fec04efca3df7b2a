//! What we depend on: no crate twice, no licence that was not agreed to, nothing that is not used.
//!
//! Reads `cargo metadata` for this platform. cargo-deny and cargo-machete do the same, but the first alone takes two
//! and a half minutes to install on two cores; known vulnerabilities (which need a database from the network) are not
//! checked here.

mod duplicates;
mod licences;
mod unused;

use crate::repo::{Metadata, Source};
use crate::tidy::Finding;

/// All findings about dependencies.
pub(crate) fn check(metadata: &Metadata, sources: &[Source]) -> Vec<Finding> {
    let versions: Vec<_> = metadata.packages.iter().map(|p| (p.name.as_str(), p.version.as_str())).collect();
    let licences: Vec<_> = metadata.packages.iter().map(|p| (p.name.as_str(), p.license.as_deref())).collect();
    let mut findings = duplicates::check(&versions, duplicates::ALLOWED);
    findings.extend(licences::check(&licences));
    findings.extend(unused::check(&unused::manifests(metadata), sources));
    findings
}
