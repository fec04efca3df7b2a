//! The READMEs: their commands run unchanged, and their program is an example that is run.

use crate::book::read_along;

const README: &str = include_str!("../../../README.md");
const IN_CHINESE: &str = include_str!("../../../README.zh-CN.md");
/// The longest README that newcomers read to its end.
const BYTES_MAX: usize = 10 << 10;

#[test]
fn its_commands_work_as_they_stand() {
    for (page, greeting) in [("README.md", "hello, two seconds later\n"), ("README.zh-CN.md", "两秒后见\n")] {
        let printed = read_along(page);
        for expected in ["pushed: queue greetings", "\"outcome\":\"created\"", greeting, "{\"cancelled\":1}"] {
            assert!(printed.contains(expected), "{page}: {expected} is missing: {printed}");
        }
        assert_eq!(printed.matches("cancelled\norder 2 is cancelled\n").count(), 3, "{page}: {printed}");
    }
}

/// `unpaid_orders_are_cancelled_as_in_the_readme` of the library runs it.
#[test]
fn its_program_is_an_example() {
    let example = include_str!("../../duetime/examples/unpaid_order.rs");
    let (_, program) = example.split_once("\n\n").unwrap();
    for readme in [README, IN_CHINESE] {
        assert!(readme.contains(&format!("```rust\n{program}```\n")), "{readme}");
    }
}

#[test]
fn it_is_short() {
    assert!(README.len() <= BYTES_MAX, "expected at most {BYTES_MAX} bytes, got {}", README.len());
}
