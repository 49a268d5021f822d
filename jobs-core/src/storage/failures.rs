//! Failures in groups: those of one kind of job with the same text, apart from numbers and ids. A failure is an attempt
//! that failed. An entry about a job that an operator has cancelled or discarded, that has expired or that a full limit
//! has ended, is no failure.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::job_id::JobId;
use crate::state::JobState;

/// How many failures are examined: the newest.
pub const FAILURES_EXAMINED: usize = 10_000;
/// How many entries are read to find them: the newest. Many entries may be about cancelled jobs.
pub const ENTRIES_EXAMINED: usize = 100_000;
/// How many characters of a message without a fingerprint decide its group.
pub const MESSAGE_PREFIX: usize = 300;

/// The groups of the newest failures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Failures {
    /// The groups, the largest first.
    pub groups: Vec<FailureGroup>,
    /// How many failures were examined.
    pub examined: usize,
    /// The oldest of them.
    pub oldest_at: Option<DateTime<Utc>>,
    /// Whether these are all failures that are stored.
    pub is_complete: bool,
}

impl Failures {
    /// Whether all failures since this time that are stored were examined.
    pub fn has_all_since(&self, at: DateTime<Utc>) -> bool {
        self.is_complete || self.oldest_at.is_some_and(|oldest| oldest <= at)
    }
}

/// Failures of one kind of job with the same text, apart from numbers and ids.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureGroup {
    /// The kind of the jobs.
    pub kind: String,
    /// The fingerprint, for the filter `fingerprint:`. `None` if an earlier version has stored the failures.
    pub fingerprint: Option<i64>,
    /// How many failed attempts.
    pub failures: u64,
    /// How many of them failed in the last hour.
    pub last_hour: u64,
    /// How many jobs.
    pub jobs: u64,
    /// How many jobs are discarded now, and have no newer failure than one of these.
    pub discarded: u64,
    /// How many jobs wait for another attempt now, and have no newer failure than one of these.
    pub retrying: u64,
    /// The oldest of the failures.
    pub first_at: DateTime<Utc>,
    /// The newest of the failures.
    pub last_at: DateTime<Utc>,
    /// The text of the newest one.
    pub message: String,
    /// The job of the newest one.
    pub sample: JobId,
    /// The queue of that job.
    pub queue: String,
}

impl FailureGroup {
    /// Adds the same failures of jobs that are stored under another name of the kind.
    pub fn add(&mut self, other: Self) {
        self.failures += other.failures;
        self.last_hour += other.last_hour;
        self.jobs += other.jobs;
        self.discarded += other.discarded;
        self.retrying += other.retrying;
        self.first_at = self.first_at.min(other.first_at);
        if self.last_at < other.last_at {
            self.last_at = other.last_at;
            (self.message, self.sample, self.queue) = (other.message, other.sample, other.queue);
        }
    }
}

/// The job of a failure as a storage reads it.
#[derive(Clone, Debug)]
pub struct FailedJob {
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Its state.
    pub state: JobState,
    /// The id of its newest entry.
    pub newest: i64,
}

/// A failure as a storage reads it.
#[derive(Clone, Debug)]
pub struct FailureRow {
    /// The id of the failure.
    pub id: i64,
    /// Its job.
    pub job: JobId,
    /// What is known of the job. `None` if it does not exist any more.
    pub of: Option<FailedJob>,
    /// Its fingerprint.
    pub fingerprint: Option<i64>,
    /// The beginning of its message, if it has no fingerprint.
    pub message: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

/// A group, and the id of its newest failure, whose message is still to be read.
pub(super) type Grouped = (FailureGroup, i64);

/// Groups failures, which come newest first. The last hour begins at `hour_ago`. Returns the largest groups. Failures
/// of jobs that do not exist any more are left out.
pub fn group_failures(rows: Vec<FailureRow>, hour_ago: DateTime<Utc>, limit: usize) -> Vec<Grouped> {
    let mut places: HashMap<(String, Option<i64>, String), usize> = HashMap::new();
    let mut groups: Vec<(Grouped, HashSet<JobId>)> = Vec::new();
    for row in rows {
        let Some(FailedJob { kind, queue, state, newest }) = row.of else { continue };
        let text = row.message.as_deref().map(normalised).unwrap_or_default();
        let place = *places.entry((kind.clone(), row.fingerprint, text)).or_insert_with(|| {
            let group = FailureGroup {
                kind,
                fingerprint: row.fingerprint,
                failures: 0,
                last_hour: 0,
                jobs: 0,
                discarded: 0,
                retrying: 0,
                first_at: row.at,
                last_at: row.at,
                message: String::new(),
                sample: row.job,
                queue,
            };
            groups.push(((group, row.id), HashSet::new()));
            groups.len() - 1
        });
        let ((group, _), jobs) = &mut groups[place];
        group.failures += 1;
        group.last_hour += u64::from(row.at >= hour_ago);
        group.first_at = group.first_at.min(row.at);
        group.last_at = group.last_at.max(row.at);
        group.jobs += u64::from(jobs.insert(row.job));
        // The filter for the jobs of a group looks at the newest entry of each, and an operator who has discarded a job
        // has made one.
        if row.id == newest {
            group.discarded += u64::from(state == JobState::Discarded);
            group.retrying += u64::from(state.is_waiting());
        }
    }
    let mut groups: Vec<Grouped> = groups.into_iter().map(|(group, _)| group).collect();
    groups.sort_by_key(|(group, newest)| (std::cmp::Reverse(group.failures), std::cmp::Reverse(*newest)));
    groups.truncate(limit);
    groups
}

/// The text without numbers and ids: each word with a digit becomes `#`.
fn normalised(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
        if word.contains(|c: char| c.is_ascii_digit()) {
            normal.push('#');
            normal.push_str(&piece[word.len()..]);
        } else {
            normal.push_str(piece);
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_with_the_same_text_apart_from_numbers_are_one_group() {
        let row = |(id, newest): (i64, i64), job: i64, kind: &str, message: &str| FailureRow {
            id,
            job: JobId(job),
            of: Some(FailedJob {
                kind: kind.to_owned(),
                queue: format!("of {job}"),
                state: if job == 1 { JobState::Discarded } else { JobState::Retrying },
                newest,
            }),
            fingerprint: None,
            message: Some(message.to_owned()),
            at: DateTime::from_timestamp(id, 0).unwrap(),
        };
        let rows = vec![
            row((5, 5), 2, "a", "user 8 of 0af3-77: gone"),
            row((4, 4), 1, "a", "user 7 of 1b-9: gone"),
            row((3, 4), 1, "a", "user 7 of 1b-9: gone"),
            row((2, 9), 3, "b", "user 7 of 1b-9: gone"),
            row((1, 9), 3, "a", "other"),
            FailureRow { of: None, ..row((0, 0), 9, "a", "other") },
        ];
        let groups = group_failures(rows, DateTime::from_timestamp(4, 0).unwrap(), 2);
        let ((group, newest), second) = (&groups[0], &groups[1].0);
        assert_eq!(
            (group.kind.as_str(), group.failures, group.jobs, group.discarded, group.retrying),
            ("a", 3, 2, 1, 1)
        );
        assert_eq!((*newest, group.sample, group.first_at.timestamp(), group.last_at.timestamp()), (5, JobId(2), 3, 5));
        assert_eq!((second.kind.as_str(), second.failures), ("b", 1));
        assert_eq!((group.queue.as_str(), second.queue.as_str()), ("of 2", "of 3"));
        assert_eq!((group.last_hour, second.last_hour), (2, 0));
        assert_eq!((second.jobs, second.retrying), (1, 0), "the job has a newer entry");
        assert_eq!(groups.len(), 2);
    }
}
