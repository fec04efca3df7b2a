//! Checks that files of a crate import each other in one direction: a circle has few files, so that each can be read and
//! changed without many others. What a file passes on (`pub use`) counts as little as what it declares (`mod`).

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Masked, is_rust};
use crate::repo::Source;

/// Most files of a circle.
const FILES_MAX: usize = 4;

/// The crate, and the names of modules in it.
pub(super) type Module = Vec<String>;

/// The files that are no tests, by their modules.
pub(super) fn modules(sources: &[Source]) -> BTreeMap<Module, &Source> {
    let rust = sources.iter().filter(|source| is_rust(source));
    rust.filter_map(|source| Some((module(&source.path)?, source))).collect()
}

/// Circles that have too many files.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let modules = modules(sources);
    let imports: BTreeMap<&Module, BTreeSet<&Module>> =
        modules.iter().map(|(module, source)| (module, imported(module, &source.text, &modules))).collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (*module, reached(module, &imports))).collect();
    let mut findings = Vec::new();
    for (module, others) in &reached {
        let circle: Vec<_> = others.iter().filter(|other| reached[*other].contains(module)).collect();
        // Each circle is reported once, at the first of its files.
        if circle.len() > FILES_MAX && circle.iter().all(|other| *module <= **other) {
            let names: Vec<_> = circle.iter().map(|other| other[1..].join("::")).collect();
            let advice =
                format!("{} files import each other, at most {FILES_MAX} may: {}", circle.len(), names.join(", "));
            findings.push(Finding { path: modules[*module].path.clone(), line: 0, advice });
        }
    }
    findings
}

/// The crate and the modules of a file; `None` for tests.
fn module(path: &str) -> Option<Module> {
    let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let file = file.strip_suffix(".rs")?;
    let names = file.split('/').filter(|name| !matches!(*name, "mod" | "lib" | "main"));
    let module: Module = std::iter::once(name).chain(names).map(str::to_owned).collect();
    let is_test = module.iter().any(|name| matches!(name.as_str(), "tests" | "testing") || name.ends_with("_tests"));
    (!is_test).then_some(module)
}

/// The modules that a file imports from.
pub(super) fn imported<'a>(
    module: &Module,
    text: &str,
    modules: &'a BTreeMap<Module, &Source>,
) -> BTreeSet<&'a Module> {
    let masked = Masked::new(text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
    let statements = masked.text().split("\nuse ").skip(1).filter_map(|rest| rest.split_once(';'));
    let mut paths = Vec::new();
    for (statement, _) in statements {
        let statement: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        expand("", &statement, &mut paths);
    }
    let found = paths.iter().filter_map(|path| resolved(module, path, modules));
    found.filter(|found| *found != module).collect()
}

/// The paths of a `use` with braces.
fn expand(before: &str, rest: &str, paths: &mut Vec<String>) {
    let Some((head, inner)) = rest.split_once('{') else {
        paths.push(format!("{before}{}", rest.trim()));
        return;
    };
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&format!("{before}{}", head.trim()), inner[start..at].trim(), paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The deepest module that a path names.
fn resolved<'a>(module: &Module, path: &str, modules: &'a BTreeMap<Module, &Source>) -> Option<&'a Module> {
    let mut names = path.split("::").map(|name| name.split(' ').next().unwrap_or_default()).peekable();
    let mut at = module.clone();
    match *names.peek()? {
        "crate" => at.truncate(1),
        "self" | "super" => {}
        first => drop(modules.get(&[module.as_slice(), &[first.to_owned()]].concat())?),
    }
    for name in names {
        match name {
            "crate" | "self" => {}
            "super" => drop(at.pop()),
            name => {
                at.push(name.to_owned());
                if !modules.contains_key(&at) {
                    at.pop();
                    break;
                }
            }
        }
    }
    modules.get_key_value(&at).map(|(module, _)| module)
}

/// All modules that a module imports from, directly or through others.
fn reached<'a>(module: &'a Module, imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> BTreeSet<&'a Module> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![module]);
    while let Some(module) = left.pop() {
        left.extend(imports[module].iter().copied().filter(|other| reached.insert(*other)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_circle_of_many_files_is_found_once() {
        let file = |name: usize, text: String| source(&format!("crates/core/src/a/f{name}.rs"), &text);
        let circle = |files: usize| -> Vec<Source> {
            let next = |name: usize| format!("//!\n\nuse super::{{f{}::X, other::{{Y, Z}}}};\n", (name + 1) % files);
            (0..files).map(|name| file(name, next(name))).collect()
        };
        assert!(check(&circle(FILES_MAX)).is_empty());
        let found = check(&circle(FILES_MAX + 1));
        assert_eq!((found.len(), found[0].path.as_str()), (1, "crates/core/src/a/f0.rs"));
        assert!(found[0].advice.contains("a::f0, a::f1"), "{}", found[0].advice);
    }

    #[test]
    fn what_is_passed_on_or_tested_ties_nothing() {
        let sources = [
            source("crates/core/src/a/mod.rs", "//!\nmod b;\npub use b::B;\n"),
            source("crates/core/src/a/b.rs", "//!\nuse super::C;\n#[cfg(test)]\nmod tests {\nuse crate::a::d;\n}\n"),
        ];
        let modules: BTreeMap<Module, &Source> =
            sources.iter().map(|source| (module(&source.path).unwrap(), source)).collect();
        let of = |at: usize| imported(&module(&sources[at].path).unwrap(), &sources[at].text, &modules);
        assert!(of(0).is_empty());
        assert_eq!(of(1).len(), 1);
    }
}
