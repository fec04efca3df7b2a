//! The compiler's output for a wrong `#[job(…)]`: each file of `errors` has its output beside it. If the output changes on purpose, run
//! `TRYBUILD=overwrite cargo test -p duetime-derive`, and read the diff.

#[test]
fn errors_are_at_the_field() {
    trybuild::TestCases::new().compile_fail("tests/errors/*.rs");
}
