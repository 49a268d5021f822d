//! The table at the end: for each kind, the results of its jobs and their durations.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use diesel_jobs::operator::JobFilter;
use diesel_jobs::worker::WorkerStats;
use diesel_jobs::{Database, JobState, StorageError};

#[derive(Default)]
struct Line {
    enqueued: u32,
    completed: u32,
    retried: u32,
    discarded: u32,
    waited: TimeDelta,
    ran: TimeDelta,
}

pub(crate) async fn print(database: &Database, stats: WorkerStats) -> Result<(), StorageError> {
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    for job in database.operator.list_all(&JobFilter::default(), 10_000).await? {
        let line = lines.entry(job.kind).or_default();
        line.enqueued += 1;
        line.completed += u32::from(job.state == JobState::Completed);
        line.retried += u32::from(job.attempt.saturating_sub(1));
        line.discarded += u32::from(job.state == JobState::Discarded);
        // For the newest attempt: from `run_at` to the claim, and from the claim to the end.
        if let (Some(claimed_at), Some(finished_at)) = (job.claimed_at, job.finished_at) {
            line.waited += claimed_at - job.run_at;
            line.ran += finished_at - claimed_at;
        }
    }
    println!("\nkind           enqueued  completed  retried  discarded  avg wait ms  avg run ms");
    for (kind, line) in lines {
        let Line { enqueued, completed, retried, discarded, waited, ran } = line;
        let average = |sum: TimeDelta| (sum.to_std().unwrap_or(Duration::ZERO) / enqueued.max(1)).as_secs_f64() * 1e3;
        println!(
            "{kind:<14} {enqueued:>8}  {completed:>9}  {retried:>7}  {discarded:>9}  {:>11.1}  {:>10.1}",
            average(waited),
            average(ran)
        );
    }
    println!("conflicts: {}", stats.leases_lost);
    Ok(())
}
