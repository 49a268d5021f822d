//! What `#[job]`, `#[derive(Job)]`, the testing kit and `enqueue_each` refuse, and what they must accept. Each program in
//! `fail` causes exactly the errors in the file beside it. Each program in `pass` compiles without a warning.
//!
//! `TRYBUILD=overwrite cargo test -p jobs-ui-tests` writes the expected errors again; read the difference.

#[test]
fn errors_are_single_and_at_the_users_token() {
    let programs = trybuild::TestCases::new();
    programs.pass("pass/*.rs");
    programs.compile_fail("fail/*.rs");
}
