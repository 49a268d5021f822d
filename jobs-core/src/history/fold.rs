//! Joins the rows of several workers and minutes to rows of a longer time, by adding their numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::counts::{HistoryRow, WorkCounts};

/// Which rows are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The length of the rows that are joined, in minutes.
    pub from_minutes: i16,
    /// The length of the rows that they become, in minutes.
    pub to_minutes: i16,
    /// How old rows are when they are joined.
    pub after: Duration,
}

/// Charts of the last hour need minutes, those of the last day quarters of an hour, and those of the last week hours.
pub const FOLDS: [Fold; 2] = [
    Fold { from_minutes: 1, to_minutes: 15, after: Duration::from_secs(2 * 3600) },
    Fold { from_minutes: 15, to_minutes: 60, after: Duration::from_secs(48 * 3600) },
];

/// Joins rows of the same queue and kind. The result is sorted by both.
pub fn fold(rows: impl IntoIterator<Item = HistoryRow>) -> Vec<HistoryRow> {
    let mut joined: BTreeMap<(String, String), WorkCounts> = BTreeMap::new();
    for HistoryRow { queue, kind, counts } in rows {
        joined.entry((queue, kind)).or_default().merge(&counts);
    }
    joined.into_iter().map(|((queue, kind), counts)| HistoryRow { queue, kind, counts }).collect()
}
