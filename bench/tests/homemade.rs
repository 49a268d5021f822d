//! The measure of homemade queues sees what is wrong with them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::process::Command;

use serde_json::Value;

fn line(variant: &str) -> Value {
    let server = std::env::var("JOBS_TEST_DATABASE_URL")
        .expect("JOBS_TEST_DATABASE_URL names the tests' server; `cargo xtask test` sets it");
    let output = Command::new(env!("CARGO_BIN_EXE_jobs-bench"))
        .args(["homemade", "--n", "20000", "--seconds", "2", "--runs", "1", "--json", "--only", variant])
        .env("DATABASE_URL", server)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    let line: Value = serde_json::from_str(&text).unwrap();
    assert!(line["ours"].as_f64().unwrap() > 0.0, "{text}");
    line
}

#[test]
fn a_queue_without_a_lock_runs_jobs_twice() {
    let line = line("status, no lock, 8 at once");
    assert!(line["run_twice"].as_f64().unwrap() > 10.0, "{line}");
}

#[test]
fn a_queue_with_one_transaction_per_job_runs_only_the_job_of_a_cut_connection_twice() {
    let line = line("one transaction, SKIP LOCKED, 8 at once");
    assert!(line["run_twice"].as_f64().unwrap() <= 1.0, "{line}");
    assert_eq!(line["stuck"].as_f64(), Some(0.0), "{line}");
}
