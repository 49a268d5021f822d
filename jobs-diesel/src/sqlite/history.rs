//! What people read about the work, and what workers write about it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use diesel::SqliteConnection;
use diesel_jobs_core::health_checks::{self, Observed};
use diesel_jobs_core::history::{
    KindRate, Point, QueueRates, SeriesBounds, WorkFilter, kind_rates, points, queue_rates,
};
use diesel_jobs_core::storage::{Finding, History, Maintained, StorageResult, WaitingJobs, rest_after};
use diesel_jobs_core::{Events, EventsSince, LeasedJob, LongQueues, Sample, Stats};

use crate::sqlite::operator::SqliteOperator;
use crate::sqlite::queries::{events, history, pause, queue_depths, sample, stats, worker};
use crate::sqlite::storage::SqliteStorage;
use crate::stored_history::JobCounts;

/// Up to this number of jobs, all jobs are counted at once. Reading them takes some ten milliseconds.
const FEW: i64 = 20_000;

/// The shortest time between two counts of all jobs. Every listener wakes up when the count is written.
const SAMPLE_EVERY: Duration = Duration::from_secs(15);

#[async_trait]
impl History for SqliteOperator {
    async fn stats(&self) -> StorageResult<Stats> {
        self.reader
            .read(|conn| {
                let (counted, sample) = match queue_depths::are_at_most(conn, FEW)? {
                    true => (Some(stats::stats(conn)?), None),
                    false => (None, sample::read(conn)?),
                };
                let depths = queue_depths::queue_depths(conn, &LongQueues::of(sample.as_ref()))?;
                let (held, running) = (queue_depths::held_by_queue(conn)?, queue_depths::running_by_queue(conn)?);
                Ok(Stats::new(depths, &held, &running, counted, sample))
            })
            .await
    }

    async fn sample(&self) -> StorageResult<Option<Sample>> {
        self.reader.read(sample::read).await
    }

    async fn series(&self, range: Duration, step: Duration, filter: &WorkFilter) -> StorageResult<Vec<Point>> {
        let bounds = SeriesBounds::new(self.reader.read(history::now).await?, range, step)?;
        let filter = filter.clone();
        let rows = self.reader.read(move |conn| history::rows(conn, &bounds, &filter)).await?;
        Ok(points(&bounds, rows.into_iter().map(|(at, row)| (at, row.counts))))
    }

    async fn queue_rates(&self, queues: &[String], range: Duration, step: Duration) -> StorageResult<Vec<QueueRates>> {
        let bounds = SeriesBounds::new(self.reader.read(history::now).await?, range, step)?;
        let queues = queues.to_vec();
        let rows = self.reader.read(move |conn| history::completed(conn, &bounds, &queues)).await?;
        Ok(queue_rates(&bounds, rows))
    }

    async fn rates(&self, range: Duration) -> StorageResult<Vec<KindRate>> {
        let bounds = SeriesBounds::whole(self.reader.read(history::now).await?, range)?;
        let rows = self.reader.read(move |conn| history::rows(conn, &bounds, &WorkFilter::default())).await?;
        Ok(kind_rates(bounds.seconds(), rows.into_iter().map(|(_, row)| row)))
    }

    async fn outcomes(&self, range: Duration) -> StorageResult<Vec<KindRate>> {
        let bounds = SeriesBounds::whole(self.reader.read(history::now).await?, range)?;
        let rows = self.reader.read(move |conn| history::outcomes(conn, &bounds)).await?;
        Ok(kind_rates(bounds.seconds(), rows))
    }

    async fn leased(&self, queue: Option<&str>, limit: usize) -> StorageResult<Vec<LeasedJob>> {
        let queue = queue.map(str::to_owned);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.reader.read(move |conn| queue_depths::leased(conn, queue.as_deref(), limit)).await
    }

    async fn events(&self, since: &EventsSince) -> StorageResult<Events> {
        let since = since.clone();
        self.reader.read(move |conn| events::events(conn, &since)).await
    }
}

impl SqliteStorage {
    /// Counts all jobs, if it is this worker's turn.
    pub(super) async fn sample_jobs(&self) -> StorageResult<Maintained> {
        // Reading takes no lock.
        if let Some(wait) = self.reader.read(sample::next).await? {
            return Ok(Maintained { next: Some(wait), ..Maintained::default() });
        }
        if let Some(wait) = self.writer.write_lazily(sample::take_turn).await? {
            return Ok(Maintained { next: Some(wait), ..Maintained::default() });
        }
        let (began, counts) = (Instant::now(), Arc::new(Mutex::new(JobCounts::default())));
        let mut last = Some(i64::MIN);
        while let Some(after) = last {
            let counts = counts.clone();
            last = self
                .reader
                .read(move |conn| {
                    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                    sample::count_part(conn, after, &mut counts)
                })
                .await?;
        }
        let kinds = std::mem::take(&mut *counts.lock().unwrap_or_else(PoisonError::into_inner)).into_kinds();
        let (took, due) = (self.stopwatch.since(began), health_checks::due_jobs(&kinds));
        let rest = rest_after(took, SAMPLE_EVERY);
        self.writer.write_lazily(move |conn| sample::store(conn, took, &kinds, rest)).await?;
        let unserved = self.unserved(due).await?;
        Ok(Maintained { rows: 1, next: Some(rest), unserved, ..Maintained::default() })
    }

    /// Those of these jobs that no live worker runs. Without jobs, it sends no statement.
    async fn unserved(&self, jobs: Vec<WaitingJobs>) -> StorageResult<Vec<Finding>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let read = |conn: &mut SqliteConnection| Ok((worker::list(conn)?, pause::queues(conn)?, pause::kinds(conn)?));
        let (workers, queues, kinds) = self.reader.read(read).await?;
        Ok(health_checks::unserved(&Observed { jobs, workers, queues, kinds, frozen: None }, None))
    }
}
