//! What `#[job]`, `#[derive(Job)]`, the testing kit and `enqueue_each` refuse. Each program in `fail` causes exactly
//! the errors in the file beside it. The programs are only checked, so their dependencies are, too. What must be
//! accepted is in `pass`: test programs of their own.
//!
//! `TRYBUILD=overwrite cargo test -p jobs-ui-tests` writes the expected errors again; read the difference.

#[test]
fn errors_are_single_and_at_the_users_token() {
    let programs = trybuild::TestCases::new();
    programs.compile_fail("fail/*.rs");
}
