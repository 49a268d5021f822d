//! The file `.env` names the server of tests, as it names the database of the worker.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::database::server;

/// Runs a test that needs a server in a process of its own, whose working directory and variables are these. Returns
/// whether it passed, and what it printed.
fn run(directory: &Path, variables: &[(&str, &str)]) -> (bool, String) {
    let name = "attribute::pg_async::a_test_has_a_transaction_of_its_own";
    let mut second = Command::new(std::env::current_exe().unwrap());
    second.args(["--exact", name, "--nocapture"]).current_dir(directory);
    second.env_remove("TEST_DATABASE_URL").env_remove("DATABASE_URL").envs(variables.iter().copied());
    let output = second.output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(printed.contains("running 1 test"), "{printed}");
    (output.status.success(), printed)
}

/// Where nothing listens.
const WRONG: &str = "postgres://me:s3cret@127.0.0.1:1/wrong";

#[test]
fn a_file_above_names_the_server_of_tests() {
    let scratch = tempfile::tempdir().unwrap();
    let inner = scratch.path().join("crates/app");
    fs::create_dir_all(&inner).unwrap();
    let file = scratch.path().join(".env");
    for text in
        [format!("DATABASE_URL={}\n", server()), format!("DATABASE_URL={WRONG}\nTEST_DATABASE_URL='{}'\n", server())]
    {
        fs::write(&file, &text).unwrap();
        let (passed, printed) = run(&inner, &[]);
        assert!(passed, "{printed}");
    }
    fs::write(&file, format!("TEST_DATABASE_URL={}\n", server())).unwrap();
    let (passed, printed) = run(&inner, &[("DATABASE_URL", WRONG)]);
    assert!(passed, "{printed}");
}

#[test]
fn a_variable_that_is_set_wins_over_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    // No line of the file is understood, and none is needed.
    for text in [format!("TEST_DATABASE_URL={WRONG}\n"), "no assignment".to_owned()] {
        fs::write(scratch.path().join(".env"), text).unwrap();
        let (passed, printed) = run(scratch.path(), &[("TEST_DATABASE_URL", &server())]);
        assert!(passed, "{printed}");
    }
    fs::write(scratch.path().join(".env"), format!("DATABASE_URL={WRONG}\n")).unwrap();
    let (passed, printed) = run(scratch.path(), &[("DATABASE_URL", &server())]);
    assert!(passed, "{printed}");
}

#[test]
fn without_a_server_the_message_states_what_to_write() {
    let scratch = tempfile::tempdir().unwrap();
    let advice = "TEST_DATABASE_URL=postgres://postgres:password@localhost/postgres";
    let (passed, printed) = run(scratch.path(), &[]);
    assert!(!passed && printed.contains("no file .env") && printed.contains(advice), "{printed}");

    let file = fs::canonicalize(scratch.path()).unwrap().join(".env");
    fs::write(&file, "OTHER=1\n").unwrap();
    let (passed, printed) = run(scratch.path(), &[]);
    assert!(
        !passed && printed.contains(&format!("nor in {}", file.display())) && printed.contains(advice),
        "{printed}"
    );

    fs::write(&file, "OTHER=1\npostgres://me:s3cret@db/app\n").unwrap();
    let (passed, printed) = run(scratch.path(), &[]);
    assert!(!passed && printed.contains(&format!("{} line 2 is not understood", file.display())), "{printed}");
    assert!(!printed.contains("s3cret"), "{printed}");
}
