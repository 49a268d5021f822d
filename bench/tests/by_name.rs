//! The measures that run by name only: each prints its row, and counts what must not happen. Their rates and times are
//! in `measured.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod row;

use self::row::{measured, neighbour, row};

const HOMEMADE: [&str; 3] = ["homemade", "--n", "20000"];

#[test]
fn a_queue_without_a_lock_is_measured() {
    row(measured(&HOMEMADE, "status, no lock, 8 processes"), &["run_twice", "stuck", "killed"]);
}

#[test]
fn a_queue_with_one_transaction_per_job_runs_only_the_job_of_a_killed_process_twice() {
    let row = row(measured(&HOMEMADE, "one transaction, SKIP LOCKED, 8 processes"), &["run_twice"]);
    assert_eq!((row["processes"].as_f64(), row["killed"].as_f64()), (Some(8.0), Some(1.0)), "{row}");
    assert!(row["run_twice"].as_f64().unwrap() <= 1.0, "{row}");
    assert_eq!(row["stuck"].as_f64(), Some(0.0), "{row}");
}

#[test]
fn what_a_killed_worker_had_taken_runs_again_and_nothing_is_stuck() {
    let row = row(measured(&["homemade", "--n", "300000"], "diesel-jobs, 8 processes"), &["run_twice", "rescued"]);
    assert_eq!((row["killed"].as_f64(), row["stuck"].as_f64()), (Some(1.0), Some(0.0)), "{row}");
    assert!(row["run_twice"].as_f64() <= row["rescued"].as_f64(), "{row}");
}

#[test]
fn pgbench_and_the_jobs_run_beside_each_other() {
    if let Some(row) = neighbour() {
        assert!(row["p99_ms"].as_f64() >= row["ours"].as_f64(), "{row}");
    }
}

#[test]
fn what_operating_costs_is_measured() {
    let operating = ["operating", "--quick", "--n", "2000"];
    let retry = row(measured(&operating, "bulk retry"), &["raw", "retry_s"]);
    assert!(retry["raw"].as_f64().unwrap() > 0.0 && retry["retry_s"].as_f64().unwrap() > 0.0, "{retry}");
    let drain = row(measured(&operating, "drain with metrics"), &["ratio"]);
    assert!(drain["ratio"].as_f64().unwrap() > 0.0, "{drain}");
}

#[test]
fn what_limits_and_keys_cost_is_measured() {
    let flow = ["flow", "--n", "2000"];
    for variant in ["10000 keys of limit 1, 1 processes", "jobs of 1 ms", "enqueue, unique", "bulk, unique"] {
        let row = row(measured(&flow, variant), &["ratio"]);
        assert!(row["ratio"].as_f64().unwrap() > 0.0, "{row}");
    }
    row(measured(&["flow", "--n", "50"], "pick-up, limited"), &["p99"]);
}
