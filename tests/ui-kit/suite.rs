//! What the testing kit and `enqueue_each` refuse: each program in `fail` shows exactly the errors beside it.
//!
//! `TRYBUILD=overwrite cargo test -p jobs-ui-kit-tests` writes the expected errors anew; read the difference.

#[test]
fn errors_are_at_the_field_or_the_argument() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
