//! The jobs that a drain may still run, in the order of a claim.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use diesel_jobs_core::{JobId, JobRecord};

/// The jobs that a drain can run. A drain reads all waiting jobs once. After each attempt it reads only the new jobs
/// and the job of the attempt. So its time grows with the number of jobs and not with the square of this number.
#[derive(Default)]
pub(super) struct Backlog {
    in_order: BTreeMap<Place, JobRecord>,
    by_time: BTreeSet<(DateTime<Utc>, Place)>,
}

/// Higher priorities come first, then earlier times, then lower ids.
type Place = (Reverse<i16>, DateTime<Utc>, JobId);

fn place(job: &JobRecord) -> Place {
    (Reverse(job.priority), job.run_at, job.id)
}

impl Backlog {
    pub(super) fn add(&mut self, job: JobRecord) {
        self.by_time.insert((job.run_at, place(&job)));
        self.in_order.insert(place(&job), job);
    }

    pub(super) fn remove(&mut self, job: &JobRecord) {
        self.by_time.remove(&(job.run_at, place(job)));
        self.in_order.remove(&place(job));
    }

    /// The best job that is due. It examines the earliest job of each priority only.
    pub(super) fn due(&self, now: DateTime<Utc>) -> Option<&JobRecord> {
        let mut level = self.in_order.first_key_value();
        while let Some(((priority, run_at, _), job)) = level {
            if *run_at <= now {
                return Some(job);
            }
            let end_of_level = (*priority, DateTime::<Utc>::MAX_UTC, JobId(i64::MAX));
            level = self.in_order.range(end_of_level..).next();
        }
        None
    }

    /// The job that is due first, whether that is past or not.
    pub(super) fn earliest(&self) -> Option<&JobRecord> {
        self.by_time.first().and_then(|(_, place)| self.in_order.get(place))
    }
}
