//! What people read about the work, and what workers write about it.
//!
//! Numbers of jobs come from two counts. `stats` counts when it is asked, each queue up to a limit, and reads a bounded
//! number of rows ([`queue_depths`](super::queries::queue_depths), [`held_by_queue`](super::queries::held_by_queue)).
//! The sampler counts all jobs, part by part, and keeps no snapshot between two parts. `stats` shows its numbers for
//! queues that it found long. Every minute workers write what they have done (`record_history`), and charts add that up
//! (`series`).

use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use diesel_async::RunQueryDsl;
use diesel_jobs_core::health_checks::{self, Observed};
use diesel_jobs_core::history::{
    HistoryBatch, KindRate, Point, QueueRates, SeriesBounds, WorkFilter, kind_rates, points, queue_rates,
};
use diesel_jobs_core::storage::{
    Finding, History, Maintained, Operator as _, RuntimeSettings as _, StorageResult, rest_after,
};
use diesel_jobs_core::{DeadRows, Events, EventsSince, KindStats, LeasedJob, LongQueues, Sample, Stats, StorageError};

use super::native::RawJson;
use super::queries::count_jobs::{CountFinishedQuery, CountHeldQuery, CountReadyQuery, CountRow, PART};
use super::queries::dead_rows::{DeadRowsQuery, reason};
use super::queries::held_by_queue::{HeldByQueueQuery, HeldByQueueRow, read as read_held};
use super::queries::inspect::parsed;
use super::queries::queue_depths::{DepthRow, QueueDepthsQuery, read as read_depth};
use super::queries::queue_rates::{QueueRatesQuery, QueueRatesRow};
use super::queries::record_history::RecordHistoryQuery;
use super::queries::sample::Turn;
use super::queries::series::{OutcomesQuery, SeriesQuery, SeriesRow, read as read_series};
use super::queries::{clock, events, inspect, running_jobs, sample};
use super::{PgStorage, run};
use crate::stored_history::JobCounts;

/// Up to this size of the tables, in bytes, all jobs are counted at once. Reading them takes some ten milliseconds.
const SMALL: i64 = 16 * 1024 * 1024;

/// The shortest time between two counts of all jobs.
const SAMPLE_EVERY: Duration = Duration::from_secs(15);
/// How long to wait while dead rows make a count slow.
const REST: Duration = Duration::from_secs(30);
/// How often the turn of a long count is renewed.
const RENEW: Duration = Duration::from_secs(30);

/// A table that is counted part by part.
#[derive(Clone, Copy)]
enum Table {
    Ready,
    Held,
    Finished,
}

impl PgStorage {
    async fn database_now(&self) -> StorageResult<DateTime<Utc>> {
        run!(self, "now", conn => clock::now(conn))
    }

    /// The jobs by queue and kind, counted part by part.
    async fn count_jobs(&self) -> StorageResult<Vec<KindStats>> {
        let (mut counts, mut renewed) = (JobCounts::default(), Instant::now());
        let mut add = |rows: Vec<CountRow>| {
            let is_full = rows.iter().map(|row| row.3).sum::<i64>() >= PART;
            let last = rows.iter().map(|row| row.4).max().filter(|_| is_full);
            for (queue, kind, state, jobs, _, waited) in rows {
                counts.add(queue, kind, parsed(&state), jobs, waited);
            }
            last
        };
        add(run!(self, "count_running", conn => running_jobs::count_running(conn))?);
        for table in [Table::Ready, Table::Held, Table::Finished] {
            let mut after = i64::MIN;
            loop {
                let rows: Vec<CountRow> = match table {
                    Table::Ready => run!(self, "count_ready", conn => CountReadyQuery { after }.load(conn))?,
                    Table::Held => run!(self, "count_held", conn => CountHeldQuery { after }.load(conn))?,
                    Table::Finished => run!(self, "count_finished", conn => CountFinishedQuery { after }.load(conn))?,
                };
                match add(rows) {
                    Some(last) => after = last,
                    None => break,
                }
                if renewed.elapsed() > RENEW {
                    run!(self, "renew_sample", conn => sample::set_next(conn, sample::TURN))?;
                    renewed = Instant::now();
                }
            }
        }
        Ok(counts.into_kinds())
    }
}

#[async_trait]
impl History for PgStorage {
    async fn stats(&self) -> StorageResult<Stats> {
        let is_small = run!(self, "size", conn => inspect::size(conn))? <= SMALL;
        let sample = if is_small { None } else { self.sample().await? };
        let long = LongQueues::of(sample.as_ref());
        let depths: Vec<DepthRow> =
            run!(self, "queue_depths", conn => RunQueryDsl::load(QueueDepthsQuery::new(long.clone()), conn))?;
        let held: Vec<HeldByQueueRow> = run!(self, "held_by_queue", conn => RunQueryDsl::load(HeldByQueueQuery, conn))?;
        let running = run!(self, "running_by_queue", conn => running_jobs::running_by_queue(conn))?;
        let counted = if is_small { Some(run!(self, "stats", conn => inspect::stats(conn))?) } else { None };
        Ok(Stats::new(depths.into_iter().map(read_depth).collect(), &read_held(held), &running, counted, sample))
    }

    async fn sample(&self) -> StorageResult<Option<Sample>> {
        run!(self, "sample", conn => sample::read(conn))
    }

    async fn dead_rows(&self) -> StorageResult<Option<DeadRows>> {
        let (snapshot_seconds, rows) = run!(self, "dead_rows", conn => RunQueryDsl::get_result(DeadRowsQuery, conn))?;
        Ok(Some(DeadRows { rows, snapshot_seconds }))
    }

    async fn series(&self, range: Duration, step: Duration, filter: &WorkFilter) -> StorageResult<Vec<Point>> {
        let bounds = SeriesBounds::new(self.database_now().await?, range, step)?;
        let rows: Vec<SeriesRow> =
            run!(self, "series", conn => RunQueryDsl::load(SeriesQuery::by_time(&bounds, filter), conn))?;
        let at = |step: i64| bounds.from + TimeDelta::microseconds(step.saturating_mul(bounds.step_micros));
        let counted = rows.into_iter().map(read_series).map(|(step, row)| (at(step), row.counts));
        Ok(points(&bounds, counted))
    }

    async fn queue_rates(&self, queues: &[String], range: Duration, step: Duration) -> StorageResult<Vec<QueueRates>> {
        let bounds = SeriesBounds::new(self.database_now().await?, range, step)?;
        let rows: Vec<QueueRatesRow> =
            run!(self, "queue_rates", conn => RunQueryDsl::load(QueueRatesQuery::new(&bounds, queues), conn))?;
        let at = |step: i64| bounds.from + TimeDelta::microseconds(step.saturating_mul(bounds.step_micros));
        Ok(queue_rates(&bounds, rows.into_iter().map(|(queue, step, done)| (queue, at(step), done.unsigned_abs()))))
    }

    async fn rates(&self, range: Duration) -> StorageResult<Vec<KindRate>> {
        let bounds = SeriesBounds::whole(self.database_now().await?, range)?;
        let rows: Vec<SeriesRow> = run!(self, "rates", conn => RunQueryDsl::load(SeriesQuery::by_kind(&bounds), conn))?;
        Ok(kind_rates(bounds.seconds(), rows.into_iter().map(|row| read_series(row).1)))
    }

    async fn outcomes(&self, range: Duration) -> StorageResult<Vec<KindRate>> {
        let bounds = SeriesBounds::whole(self.database_now().await?, range)?;
        let rows: Vec<SeriesRow> =
            run!(self, "outcomes", conn => RunQueryDsl::load(OutcomesQuery(SeriesQuery::by_kind(&bounds)), conn))?;
        Ok(kind_rates(bounds.seconds(), rows.into_iter().map(|row| read_series(row).1)))
    }

    async fn leased(&self, queue: Option<&str>, limit: usize) -> StorageResult<Vec<LeasedJob>> {
        run!(self, "leased", conn => running_jobs::leased(conn, queue, i64::try_from(limit).unwrap_or(i64::MAX)))
    }

    async fn events(&self, since: &EventsSince) -> StorageResult<Events> {
        run!(self, "events", conn => events::events(conn, since))
    }
}

impl PgStorage {
    pub(super) async fn store_history(&self, batch: &HistoryBatch) -> StorageResult<()> {
        let rows = RawJson(json(&batch.rows)?);
        let query =
            || RecordHistoryQuery { batch: batch.id, age: batch.middle.elapsed().as_secs_f64(), rows: rows.clone() };
        run!(self, "record_history", conn => RunQueryDsl::execute(query(), conn)).map(drop)
    }

    /// Counts all jobs, if it is this worker's turn.
    pub(super) async fn sample_jobs(&self) -> StorageResult<Maintained> {
        let none = Maintained::default();
        let size = match run!(self, "take_sample_turn", conn => sample::take_turn(conn))? {
            Turn::Taken { size } => size,
            Turn::Later(wait) => return Ok(Maintained { next: Some(wait), ..none }),
        };
        // Small tables have few dead rows.
        if size > SMALL {
            let dead: (f64, i64) = run!(self, "dead_rows", conn => RunQueryDsl::get_result(DeadRowsQuery, conn))?;
            if let Some(reason) = reason(dead) {
                run!(self, "rest_sample", conn => sample::rest(conn, &reason, REST))?;
                return Ok(Maintained { rested: Some(reason), next: Some(REST), ..none });
            }
        }
        let began = Instant::now();
        let kinds = self.count_jobs().await?;
        let counts = RawJson(json(&kinds)?);
        let took = self.stopwatch().since(began);
        let rest = rest_after(took, SAMPLE_EVERY);
        run!(self, "store_sample", conn => sample::store(conn, took, counts.clone(), rest))?;
        Ok(Maintained { rows: 1, next: Some(rest), unserved: unserved(self, &kinds).await?, ..none })
    }
}

/// The due jobs that no live worker runs. While no job is due for long, it sends no statement.
async fn unserved(storage: &PgStorage, counted: &[KindStats]) -> StorageResult<Vec<Finding>> {
    let jobs = health_checks::due_jobs(counted);
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (workers, queues, kinds) = (storage.workers().await?, storage.queues().await?, storage.kinds().await?);
    Ok(health_checks::unserved(&Observed { jobs, workers, queues, kinds, frozen: None }, None))
}

fn json(value: &impl serde::Serialize) -> StorageResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| StorageError::Config(format!("numbers without a JSON form: {error}")))
}
