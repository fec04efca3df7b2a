//! Checks the direction of dependencies: between our crates, from the core outwards, between the folders of the core
//! and of the store, and between the services of the engine.
//!
//! The compiler forbids circles and no more; these are the arrows of ARCHITECTURE.md. Dependencies of tests count as
//! well: a test that needs another crate of ours belongs there.

use std::collections::BTreeSet;

use super::circles::{self, Module};
use super::mask::is_word_byte;
use super::{Finding, Masked, is_rust};
use crate::repo::Source;

/// Modules with sockets, by path.
const SOCKETS: &[&str] = &["std::net", "tokio::net", "std::os::unix::net"];

const CORE: &str = "crates/core/src/";
const STORE: &str = "crates/store/src/";

/// Folders of the core. Each imports only those before it.
const FLOORS: &[&[&str]] = &[
    &["json"],
    &["model"],
    &["rules", "schedule"],
    &["ports"],
    &["memory", "request"],
    &["api"],
    &["engine"],
    &["testing"],
];

/// Modules of the engine. Each imports only those before it.
const SERVICES: &[&[&str]] = &[
    &["stores", "precondition", "status", "waiters", "documents", "observation", "timers", "outbox_entries"],
    &["metrics", "supervisor"],
    &["events"],
    &["base"],
    &["ids", "leader", "consumers", "overflow"],
    &["queues"],
    &["loader"],
    &["comparison"],
    &["host"],
    &["search", "admission"],
    &["follow_ups"],
    &["recorder"],
    &["editor"],
    &["reconciler", "intake"],
    &["settler"],
    &["handout"],
    &["takes"],
    &["reaper", "pruner", "inbox", "schedules", "locks", "vitals"],
    &["remover"],
    &["observatory"],
    &["services"],
    &["engine"],
    &["export", "exposition", "start"],
];

/// Folders of the store that others depend on, and those others. They depend on none themselves.
const GROUNDS: &[(&str, &[&str])] = &[("sql", &["mysql", "postgres"])];

/// All arrows that should not be there.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let core = sources.iter().filter(|source| is_rust(source) && source.path.starts_with(CORE));
    let mut findings: Vec<_> = core.flat_map(|source| sockets(source).into_iter().chain(upward(source))).collect();
    findings.extend(services(sources));
    let folders = store_folders(sources);
    let store = sources.iter().filter(|source| is_rust(source) && source.path.starts_with(STORE));
    findings.extend(store.flat_map(|source| siblings(source, &folders)));
    findings
}

fn sockets(source: &Source) -> Vec<Finding> {
    let masked = Masked::new(&source.text);
    let places = SOCKETS.iter().flat_map(|path| masked.words(path).map(move |at| (at, path)));
    let finding = |(at, path): (usize, &&str)| Finding {
        path: source.path.clone(),
        line: masked.line(at),
        advice: format!("the core knows no sockets, got `{path}`: put this behind a port"),
    };
    places.map(finding).collect()
}

/// Paths in a folder of the core that lead into one that is not below it.
fn upward(source: &Source) -> Vec<Finding> {
    let own = source.path.strip_prefix(CORE).and_then(|path| path.split_once('/')).map(|(folder, _)| folder);
    let floor = FLOORS.iter().position(|floor| own.is_some_and(|own| floor.contains(&own)));
    let (Some(own), Some(floor)) = (own, floor) else { return Vec::new() };
    // Unit tests stand at the end of a file, or in files of their own. They may use all of the core.
    if source.path.ends_with("/tests.rs") || source.path.contains("/tests/") {
        return Vec::new();
    }
    let masked = Masked::new(source.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
    let above = FLOORS[floor..].iter().copied().flatten().filter(|other| **other != own);
    let places = above.flat_map(|other| masked.words(other).map(move |at| (at, other)));
    let reaching = places.filter(|(at, _)| masked.text()[..*at].ends_with("crate::"));
    let finding = |(at, other): (usize, &&str)| Finding {
        path: source.path.clone(),
        line: masked.line(at),
        advice: format!("`{own}` reaches into `{other}`, which is not below it"),
    };
    reaching.map(finding).collect()
}

/// Imports of one service of the engine from another that is not below it.
fn services(sources: &[Source]) -> Vec<Finding> {
    let modules = circles::modules(sources);
    let name = |module: &Module| match module.as_slice() {
        [core, engine, name, ..] if core == "core" && engine == "engine" => Some(name.clone()),
        _ => None,
    };
    let floor = |name: &str| SERVICES.iter().position(|floor| floor.contains(&name));
    let mut findings = Vec::new();
    for (module, source) in &modules {
        let Some(own) = name(module) else { continue };
        let finding = |advice| Finding { path: source.path.clone(), line: 0, advice };
        let Some(own_floor) = floor(&own) else {
            findings.push(finding(format!("`{own}` has no place among the services in xtask/src/tidy/arrows.rs")));
            continue;
        };
        let others = circles::imported(module, &source.text, &modules).into_iter().filter_map(name);
        let above = others.filter(|other| *other != own && floor(other).is_none_or(|floor| floor >= own_floor));
        findings.extend(above.map(|other| finding(format!("`{own}` imports from `{other}`, which is not below it"))));
    }
    findings
}

/// Names of the folders right under the store's sources.
fn store_folders(sources: &[Source]) -> BTreeSet<&str> {
    let inside = sources.iter().filter_map(|source| source.path.strip_prefix(STORE));
    inside.filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect()
}

/// Paths in a folder of the store that lead into another folder.
fn siblings(source: &Source, folders: &BTreeSet<&str>) -> Vec<Finding> {
    let own = source.path.strip_prefix(STORE).and_then(|path| path.split_once('/')).map(|(folder, _)| folder);
    // Files beside the folders may name all of them, because they export them.
    let Some(own) = own else { return Vec::new() };
    let masked = Masked::new(&source.text);
    let stands_on = |other: &str| GROUNDS.iter().any(|(ground, above)| *ground == other && above.contains(&own));
    let others = folders.iter().filter(|folder| **folder != own && !stands_on(folder));
    let places = others.flat_map(|other| masked.words(other).map(move |at| (at, other)));
    let reaching = places.filter(|(at, _)| comes_from_above(&masked.text()[..*at]));
    let finding = |(at, other): (usize, &&str)| Finding {
        path: source.path.clone(),
        line: masked.line(at),
        advice: format!("`{own}` reaches into `{other}`: move what both need beside the folders, or to the core"),
    };
    reaching.map(finding).collect()
}

/// Whether what precedes a name makes it a path from the crate or from a parent module, braces included.
fn comes_from_above(before: &str) -> bool {
    let Some(path) = before.strip_suffix("::") else { return in_braces_from_above(before) };
    let start = path.bytes().rposition(|byte| !is_word_byte(byte)).map_or(0, |at| at + 1);
    matches!(&path[start..], "crate" | "super")
}

/// As in `crate::{a, b::{c, d}, <here>`.
fn in_braces_from_above(before: &str) -> bool {
    let statement = before.rfind(';').map_or(before, |at| &before[at + 1..]);
    let mut depth = 0_usize;
    for (at, byte) in statement.bytes().enumerate().rev() {
        match byte {
            b'}' => depth += 1,
            b'{' if depth == 0 => return statement[..at].ends_with("crate::") || statement[..at].ends_with("super::"),
            b'{' => depth -= 1,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn lines(sources: &[Source]) -> Vec<usize> {
        let mut lines: Vec<_> = check(sources).iter().map(|finding| finding.line).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn the_core_opens_no_sockets() {
        let text = "use tokio::net::TcpStream;\n// std::net\nuse std::{fmt, net};\nuse std::net::IpAddr;\n";
        assert_eq!(lines(&[source("crates/core/src/a.rs", text)]), [1, 4]);
        assert_eq!(lines(&[source("crates/server/src/a.rs", text)]), [0_usize; 0]);
    }

    #[test]
    fn folders_of_the_core_import_those_below() {
        let text =
            "use crate::ports::A;\nuse crate::engine::B;\n#[cfg(test)]\nmod tests {\n    use crate::api::C;\n}\n";
        assert_eq!(lines(&[source("crates/core/src/api/a.rs", text)]), [2]);
        assert_eq!(lines(&[source("crates/core/src/model/a.rs", text)]), [1, 2]);
        assert_eq!(lines(&[source("crates/core/src/engine/loader/a.rs", text)]), [0_usize; 0]);
    }

    #[test]
    fn services_of_the_engine_import_those_below() {
        let file =
            |name: &str, text: &str| source(&format!("crates/core/src/engine/{name}"), &format!("//!\n\n{text}"));
        let sources = [
            file("loader/mod.rs", "use super::leader::A;\nuse super::recorder::B;\n"),
            file("leader.rs", ""),
            file("recorder.rs", "use crate::engine::{leader, loader::C};\n"),
            file("other.rs", ""),
        ];
        let found: Vec<_> = check(&sources).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["crates/core/src/engine/loader/mod.rs", "crates/core/src/engine/other.rs"]);
    }

    #[test]
    fn folders_of_the_store_do_not_import_each_other() {
        let text = "use crate::sqlite::A;\nuse super::super::redis::B;\nuse crate::{\n    error,\n    redis::C,\n};\n\
                    fn a() { crate::redis::d() }\nlet redis = 1;\nuse redis::Client;\nuse crate::{a::{b}, error};\nlet redis = redis;\n";
        let sources = [
            source("crates/store/src/sqlite/a.rs", text),
            source("crates/store/src/redis/mod.rs", ""),
            source("crates/store/src/lib.rs", "pub use crate::redis::C; pub use crate::sqlite::A;"),
        ];
        assert_eq!(lines(&sources), [2, 5, 7]);
    }
}
