//! What some measures show on a quiet machine: rates, times, and errors that depend on chance.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod row;

use self::row::{measured, neighbour, row};

#[test]
fn a_queue_without_a_lock_runs_jobs_twice() {
    let row = row(measured(&["homemade", "--n", "20000"], "status, no lock, 8 processes"), &["run_twice"]);
    assert!(row["ours"].as_f64().unwrap() > 0.0 && row["run_twice"].as_f64().unwrap() > 10.0, "{row}");
}

#[test]
fn pgbench_and_the_jobs_run_beside_each_other_at_their_rates() {
    let Some(row) = neighbour() else { return };
    let rate = |name: &str| row[name].as_f64().unwrap();
    assert!((40.0..=160.0).contains(&rate("jobs_per_s")), "{row}");
    assert!((100.0..=300.0).contains(&rate("transactions_per_s")), "{row}");
}

#[test]
fn a_limited_job_is_picked_up_within_a_second() {
    let row = row(measured(&["flow", "--n", "50"], "pick-up, limited"), &["p99"]);
    assert!(row["p99"].as_f64().unwrap() < 1000.0, "{row}");
}
