//! Runs one measure of the benchmarks, and reads the row that it prints.

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Runs a measure. They run one at a time: processes that work as fast as they can would change the rates of another
/// measure.
pub(crate) fn measured(measure: &[&str], variant: &str) -> Output {
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

/// The row that a measure prints, which has all of these figures.
pub(crate) fn row(output: Output, figures: &[&str]) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    let row: Value = serde_json::from_str(&text).unwrap();
    for figure in ["ours"].iter().chain(figures) {
        assert!(row[figure].is_number(), "{figure} in {text}");
    }
    row
}

/// `neighbour`. `None`: there is no pgbench, because servers from npm come without it.
pub(crate) fn neighbour() -> Option<Value> {
    let output = measured(&["neighbour"], "100 jobs/s in another database");
    if String::from_utf8_lossy(&output.stderr).contains("pgbench is needed: it comes with PostgreSQL's server packages")
    {
        assert!(Command::new("pgbench").arg("--version").output().is_err());
        return None;
    }
    Some(row(output, &["jobs_per_s", "transactions_per_s", "p99_ms"]))
}
