//! The stored form of progress. It is the same on both databases.

use chrono::{DateTime, Utc};
use diesel_jobs_core::Progress;

/// The columns of the view, with the time of either database.
pub(crate) type Columns<T> = (Option<i64>, Option<i64>, Option<String>, Option<T>);

/// A number as it is stored. The databases have no larger ones.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `None` if nothing was reported.
pub(crate) fn stored<T: Into<DateTime<Utc>>>((done, total, message, at): Columns<T>) -> Option<Progress> {
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    Some(Progress { done: count(done?), total: count(total?), message: message?, at: at?.into() })
}
