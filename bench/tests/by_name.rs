//! The measures that run by name only: `homemade` sees what is wrong with such queues, the others what they set up.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Runs a measure. They run one at a time: processes that work as fast as they can would change the rates of another measure.
fn measured(measure: &[&str], variant: &str) -> Output {
    static TURN: Mutex<()> = Mutex::new(());
    // A measure that failed does not prevent the next one.
    let _alone = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = std::env::var("JOBS_TEST_DATABASE_URL")
        .expect("JOBS_TEST_DATABASE_URL names the tests' server; `cargo xtask test` sets it");
    Command::new(env!("CARGO_BIN_EXE_jobs-bench"))
        .args(measure)
        .args(["--seconds", "2", "--runs", "1", "--json", "--only", variant])
        .env("DATABASE_URL", server)
        .output()
        .unwrap()
}

fn line(output: Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    let line: Value = serde_json::from_str(&text).unwrap();
    assert!(line["ours"].as_f64().unwrap() > 0.0, "{text}");
    line
}

const HOMEMADE: [&str; 3] = ["homemade", "--n", "20000"];

#[test]
fn a_queue_without_a_lock_runs_jobs_twice() {
    let line = line(measured(&HOMEMADE, "status, no lock, 8 processes"));
    assert!(line["run_twice"].as_f64().unwrap() > 10.0, "{line}");
}

#[test]
fn a_queue_with_one_transaction_per_job_runs_only_the_job_of_a_killed_process_twice() {
    let line = line(measured(&HOMEMADE, "one transaction, SKIP LOCKED, 8 processes"));
    assert_eq!((line["processes"].as_f64(), line["killed"].as_f64()), (Some(8.0), Some(1.0)), "{line}");
    assert!(line["run_twice"].as_f64().unwrap() <= 1.0, "{line}");
    assert_eq!(line["stuck"].as_f64(), Some(0.0), "{line}");
}

#[test]
fn what_a_killed_worker_had_taken_runs_again_and_nothing_is_stuck() {
    let line = line(measured(&["homemade", "--n", "300000"], "diesel-jobs, 8 processes"));
    assert_eq!((line["killed"].as_f64(), line["stuck"].as_f64()), (Some(1.0), Some(0.0)), "{line}");
    assert!(line["run_twice"].as_f64() <= line["rescued"].as_f64(), "{line}");
}

#[test]
fn pgbench_and_the_jobs_run_beside_each_other_at_their_rates() {
    let output = measured(&["neighbour"], "100 jobs/s in another database");
    // Servers from npm come without pgbench.
    if String::from_utf8_lossy(&output.stderr).contains("pgbench is needed: it comes with PostgreSQL's server packages")
    {
        return assert!(Command::new("pgbench").arg("--version").output().is_err());
    }
    let line = line(output);
    let rate = |name: &str| line[name].as_f64().unwrap();
    assert!((40.0..=160.0).contains(&rate("jobs_per_s")), "{line}");
    assert!((100.0..=300.0).contains(&rate("transactions_per_s")), "{line}");
    assert!(rate("p99_ms") >= rate("ours"), "{line}");
}

#[test]
fn what_operating_costs_is_measured() {
    let operating = ["operating", "--quick", "--n", "2000"];
    let retry = line(measured(&operating, "bulk retry"));
    assert!(retry["raw"].as_f64().unwrap() > 0.0 && retry["retry_s"].as_f64().unwrap() > 0.0, "{retry}");
    let drain = line(measured(&operating, "drain with metrics"));
    assert!(drain["ratio"].as_f64().unwrap() > 0.0, "{drain}");
}

#[test]
fn what_limits_and_keys_cost_is_measured() {
    let flow = ["flow", "--n", "2000"];
    for variant in ["10000 keys of limit 1, 1 processes", "jobs of 1 ms", "enqueue, unique", "bulk, unique"] {
        let line = line(measured(&flow, variant));
        assert!(line["ratio"].as_f64().unwrap() > 0.0, "{line}");
    }
    let pick_up = line(measured(&["flow", "--n", "50"], "pick-up, limited"));
    assert!(pick_up["p99"].as_f64().unwrap() < 1000.0, "{pick_up}");
}
