//! The web service of the guide, with its tests.

#[path = "../examples/service.rs"]
#[expect(dead_code, reason = "its `main` listens")]
mod program;

const EXAMPLE: &str = include_str!("../examples/service.rs");
const GUIDE: &str = include_str!("../../../docs/guides/service.md");

#[test]
fn the_guide_shows_the_program_and_its_tests() {
    let (_, program) = EXAMPLE.split_once("\n\n").unwrap();
    let (program, tests) = program.split_once("\n#[cfg(test)]").unwrap();
    for shown in [program, &format!("#[cfg(test)]{tests}")] {
        assert!(GUIDE.contains(&format!("```rust,ignore\n{shown}```\n")), "{shown}");
    }
}
