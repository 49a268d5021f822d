//! What one run of one test came to.

use std::time::Duration;

use anyhow::Result;
use torture::checker::{Kind, Promise, Violation, check};
use torture::history::{Enqueued, Record, load, save};

use super::arena::Arena;

/// What was done and what was seen.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// In words, for the table.
    pub(super) load: String,
    /// How many faults were injected.
    pub(super) faults: usize,
    /// Times until things were right again, in seconds.
    pub(super) recovery: Vec<f64>,
    /// What the oracle objects to.
    pub(super) violations: Vec<Violation>,
    /// What else is not as promised: times, exits, counts.
    pub(super) complaints: Vec<String>,
    /// For the histories of those jobs.
    pub(super) record: Record,
}

impl Run {
    /// Has the oracle look at everything, when all is at rest or should be.
    pub(super) async fn judge(arena: &Arena<'_>, ledger: &[Enqueued], promise: Promise) -> Result<Self> {
        let conn = arena.connect().await?;
        save(&conn, ledger).await?;
        let record = load(&conn).await?;
        let violations = check(&record, promise);
        let load = format!("{} jobs", record.jobs.len());
        Ok(Self { load, violations, record, ..Self::default() })
    }

    /// Complains, if this is not so.
    pub(super) fn expect(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            self.complaints.push(complaint());
        }
    }

    /// Complains, if so many percent of the recoveries did not take at most this long.
    pub(super) fn expect_within(&mut self, share: f64, bar: Duration) {
        let (seen, bar) = (quantile(&self.recovery, share).unwrap_or_default(), bar.as_secs_f64());
        self.expect(seen <= bar, || {
            format!("p{:.0} of the recovery is {seen:.2} s, and should be {bar:.2} s", share * 100.0)
        });
    }

    /// How often the oracle objects to this.
    pub(super) fn count(&self, kind: Kind) -> usize {
        self.violations.iter().filter(|violation| violation.kind == kind).count()
    }
}

/// The smallest value that so large a share does not exceed.
pub(super) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    // A share of a length is a length.
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
