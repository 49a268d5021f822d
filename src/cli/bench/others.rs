//! Detects the load of other sessions. A test would slow them down, and they would distort its figures.

use std::time::Duration;

use diesel_jobs_storage::bench::Others;

use super::numbers::number;
use crate::cli::exit::CliError;

/// How long the other sessions are observed. The server updates its transaction counters about once a second.
pub(super) const OBSERVATION: Duration = Duration::from_millis(1_200);

/// The limits from which on other sessions count as load: active sessions on average, and transactions per second.
/// Monitoring and idle workers stay below both.
const LOAD: (f64, f64) = (0.3, 20.0);

/// Fails if the other sessions reach one of the limits.
pub(super) fn refuse(others: &Others) -> Result<(), CliError> {
    let Others { active, programs, transactions } = others;
    if *active < LOAD.0 && *transactions < LOAD.1 {
        return Ok(());
    }
    let named = if programs.is_empty() { String::new() } else { format!(" ({})", programs.join(", ")) };
    Err(CliError::failed(format!(
        "others are using this database's server: {active:.1} at work at a time{named}, {} transactions/s. A load test \
         would slow them down, and they would distort it; test at a quiet time, or start anyway with --yes",
        number(*transactions)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitoring_is_no_load_and_work_is() {
        let others = |active, transactions| Others { active, transactions, programs: vec!["psql".to_owned()] };
        assert!(refuse(&others(0.0, 3.0)).is_ok());
        assert!(refuse(&others(0.1, 12.0)).is_ok());
        let refused = refuse(&others(1.0, 0.0)).unwrap_err().to_string();
        assert!(refused.contains("1.0 at work at a time (psql)") && refused.contains("--yes"), "{refused}");
        assert!(refuse(&others(0.0, 500.0)).unwrap_err().to_string().contains("500 transactions/s"));
    }
}
