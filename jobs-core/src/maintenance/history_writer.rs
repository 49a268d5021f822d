//! The history writer: stores what this worker did, when a minute of the database's clock is over, and at the shutdown.
//!
//! If the database does not answer, the numbers stay in memory until it does. After an hour the oldest minutes are
//! joined. If the process is killed, what it did since the last minute is missing in the history.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::pause::pause;
use crate::history::{HistoryBatch, fold};
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

const MINUTE: i64 = 60_000;
/// The most minutes that wait for the database.
const MOST_WAITING: usize = 60;
/// How long the workers spread their statements.
const SPREAD: Duration = Duration::from_secs(2);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("record_history");
    let mut waiting: VecDeque<HistoryBatch> = VecDeque::new();
    loop {
        let goes_on = pause(until_the_minute_ends(&shared) + SPREAD.mul_f64(rand::random()), &stop).await;
        let (middle, rows) = shared.work.take();
        if !rows.is_empty() {
            waiting.push_back(HistoryBatch { id: Uuid::now_v7(), middle, rows });
        }
        while let Some(batch) = waiting.front() {
            match shared.storage.record_history(batch).await {
                Ok(()) => drop(waiting.pop_front()),
                Err(problem) => {
                    warning.report(&problem);
                    break;
                }
            }
        }
        join_oldest(&mut waiting);
        if !goes_on {
            return;
        }
    }
}

/// How long the current minute still takes, by the database's clock. Before the first heartbeats this process's clock
/// is used. If that is wrong, the first numbers come into a neighbouring minute.
fn until_the_minute_ends(shared: &Shared) -> Duration {
    let beat = shared.heartbeat_state.newest_with_predecessor();
    let since = |sent: Instant| TimeDelta::from_std(sent.elapsed()).unwrap_or_default();
    let now: DateTime<Utc> = beat.map_or_else(Utc::now, |beat| beat.at + since(beat.sent));
    Duration::from_millis((MINUTE - now.timestamp_millis().rem_euclid(MINUTE)).unsigned_abs())
}

/// Joins the oldest minutes if too many wait. Their numbers are kept.
fn join_oldest(waiting: &mut VecDeque<HistoryBatch>) {
    while waiting.len() > MOST_WAITING
        && let (Some(oldest), Some(next)) = (waiting.pop_front(), waiting.pop_front())
    {
        // The statement with the oldest minute may have been carried out although its reply was lost. Then the joined
        // batch must not be stored under another id, so the next one is joined with the one after it.
        match waiting.pop_front() {
            Some(third) => {
                let rows = fold(next.rows.into_iter().chain(third.rows));
                waiting.push_front(HistoryBatch { rows, ..next });
            }
            None => waiting.push_front(next),
        }
        waiting.push_front(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{HistoryRow, WorkCounts};

    #[test]
    fn no_number_is_lost_while_the_database_is_away() {
        let mut waiting = VecDeque::new();
        let mut first = None;
        for _ in 0..500 {
            let counts = WorkCounts { completed: 1, ..WorkCounts::default() };
            let rows = vec![HistoryRow { queue: "q".into(), kind: "k".into(), counts }];
            let batch = HistoryBatch { id: Uuid::now_v7(), middle: Instant::now(), rows };
            first.get_or_insert(batch.id);
            waiting.push_back(batch);
            join_oldest(&mut waiting);
        }
        let completed: u64 = waiting.iter().flat_map(|batch| &batch.rows).map(|row| row.counts.completed).sum();
        assert_eq!((completed, waiting.len()), (500, MOST_WAITING));
        assert_eq!(waiting.front().map(|batch| (batch.id, batch.rows[0].counts.completed)), first.map(|id| (id, 1)));
    }
}
