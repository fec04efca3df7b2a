//! Checks dependencies: `deny.toml` is the policy, and every declared dependency must be used.
//!
//! Reads `cargo metadata` for this platform, and needs no network. cargo-deny reads the same policy and also asks the
//! advisory database; it is not required here, since it takes minutes to build and a network to ask.

mod arrows;
mod banned;
mod duplicates;
mod licences;
mod policy;
mod unused;
mod weight;

use crate::repo::{Metadata, Source};
use crate::tidy::Finding;
use policy::{PATH, Policy};

/// All findings about dependencies.
pub(crate) fn check(metadata: &Metadata, sources: &[Source]) -> Result<Vec<Finding>, String> {
    let text = sources.iter().find(|source| source.path == PATH).ok_or_else(|| format!("{PATH} is missing"))?;
    let policy = Policy::parse(&text.text)?;
    let packages = &metadata.packages;
    let versions: Vec<_> = packages.iter().map(|p| (p.name.as_str(), p.version.as_str())).collect();
    let licences: Vec<_> = packages.iter().map(|p| (p.name.as_str(), p.license.as_deref())).collect();
    let origins: Vec<_> = packages.iter().map(|p| (p.name.as_str(), p.source.as_deref())).collect();
    let skipped: Vec<_> = policy.bans.skip.iter().map(|entry| entry.spec.as_str()).collect();
    let members: Vec<_> = metadata.members().collect();
    let mut findings = arrows::check(&members);
    findings.extend(duplicates::check(&versions, &skipped));
    findings.extend(banned::check(&versions, &policy.bans.deny));
    findings.extend(banned::check_sources(&origins, &policy.sources.allow_registry));
    findings.extend(licences::check(&licences, &policy.licenses.allow));
    findings.extend(unused::check(&unused::manifests(metadata), sources));
    findings.extend(weight::check()?);
    Ok(findings)
}
