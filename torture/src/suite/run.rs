//! The result of one run of one test.

use std::time::Duration;

use anyhow::Result;
use torture::checker::{Kind, Promise, Violation, check};
use torture::history::{Enqueued, Record, load, save};

use super::fixture::Fixture;

/// What was done, and what was found.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// A description of the load, for the table.
    pub(super) load: String,
    /// How many faults were injected.
    pub(super) faults: usize,
    /// The recovery times, in seconds.
    pub(super) recovery: Vec<f64>,
    /// The violations that the checker found.
    pub(super) violations: Vec<Violation>,
    /// Other expectations that do not hold: exit codes, counts, what must be seen.
    pub(super) complaints: Vec<String>,
    /// Bounds of time that do not hold. The machine may be the cause.
    pub(super) late: Vec<String>,
    /// Whether these bounds count.
    pub(super) is_timed: bool,
    /// The record, from which the histories of jobs are printed.
    pub(super) record: Record,
}

impl Run {
    /// Stores what was enqueued, loads the record, and checks it. It is called when all work has ended, or should have.
    pub(super) async fn check(fixture: &Fixture<'_>, ledger: &[Enqueued], promise: Promise) -> Result<Self> {
        let conn = fixture.connect().await?;
        save(&conn, ledger).await?;
        let record = load(&conn).await?;
        let violations = check(&record, promise);
        let load = format!("{} jobs", record.jobs.len());
        Ok(Self { load, violations, record, is_timed: !fixture.untimed, ..Self::default() })
    }

    /// A run that ended with this complaint.
    pub(super) fn until(complaint: String) -> Self {
        Self { load: "until it was noticed".to_owned(), complaints: vec![complaint], ..Self::default() }
    }

    /// Adds the complaint if this does not hold.
    pub(super) fn expect(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            self.complaints.push(complaint());
        }
    }

    /// Adds the complaint if this bound of time does not hold.
    pub(super) fn expect_in_time(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            self.late.push(complaint());
        }
    }

    /// Whether everything holds that counts.
    pub(super) fn holds(&self) -> bool {
        self.violations.is_empty() && self.complaints.is_empty() && (self.late.is_empty() || !self.is_timed)
    }

    /// Adds a complaint if the quantile `share` of the recovery times is above `bar`.
    pub(super) fn expect_within(&mut self, share: f64, bar: Duration) {
        let (seen, bar) = (quantile(&self.recovery, share).unwrap_or_default(), bar.as_secs_f64());
        self.expect_in_time(seen <= bar, || {
            format!("p{:.0} of the recovery is {seen:.2} s, and should be {bar:.2} s", share * 100.0)
        });
    }

    /// Returns the number of violations of this kind.
    pub(super) fn count(&self, kind: Kind) -> usize {
        self.violations.iter().filter(|violation| violation.kind == kind).count()
    }
}

/// Returns the smallest value that at least this share of the values does not exceed.
pub(super) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    // The product of a length and a share is at most the length.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "indices")]
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, last + 1) - 1;
    Some(sorted[place])
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values = [3.0, 1.0, 2.0, 4.0];
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.99), quantile(&[], 0.5)), (Some(2.0), Some(4.0), None));
    }
}
