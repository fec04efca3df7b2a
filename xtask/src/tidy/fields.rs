//! A service of the engine can be held in the head: none of its methods sees more than a dozen fields.

use super::{Finding, Masked};
use crate::repo::Source;

const FIELDS_MAX: usize = 12;

/// Structs of the engine with more fields.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let engine = sources.iter().filter(|source| source.path.starts_with("crates/core/src/engine/"));
    engine.flat_map(large).collect()
}

fn large(source: &Source) -> Vec<Finding> {
    let masked = Masked::new(&source.text);
    let counted = masked.words("struct").filter_map(|at| {
        let (head, rest) = masked.text()[at..].split_once('{').filter(|(head, _)| !head.contains([';', '(']))?;
        let fields = rest.split_once("\n}")?.0.lines().filter(|line| line.ends_with(',') && line.contains(": "));
        Some((at, head.trim_end(), fields.count()))
    });
    let finding = |(at, name, count)| Finding {
        path: source.path.clone(),
        line: masked.line(at),
        advice: format!("`{name}` has {count} fields, expected at most {FIELDS_MAX}: group what belongs together"),
    };
    counted.filter(|(.., count)| *count > FIELDS_MAX).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_service_has_at_most_a_dozen_fields() {
        let of = |fields: usize| {
            let fields = "    /// A: b,\n    pub(super) a: Arc<dyn B>,\n".repeat(fields);
            let text = format!("struct Marker;\nstruct A {{\n{fields}}}\nfn a() {{\n    b(c: d,\n    e)\n}}\n");
            check(&[source("crates/core/src/engine/a.rs", &text)]).iter().map(|found| found.line).collect::<Vec<_>>()
        };
        assert_eq!((of(12), of(13)), (vec![], vec![2]));
    }
}
