//! A rival: a connection that enqueues jobs with keys for which the others race, too.

use std::time::Duration;

use anyhow::Result;
use diesel::result::Error as DieselError;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::{Enqueue as _, Enqueued, NewJob, enqueue_all};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use tokio_util::sync::CancellationToken;
use torture::history::CommitOutcome;
use torture::workload::keyed::{Keeping, WorkKey};

use super::told::{Answer, Told};

/// How long a reply may take before the rival closes its connection.
const LIMIT: Duration = Duration::from_secs(20);
/// The pause between two enqueues, and between attempts to connect.
const PAUSE_MILLIS: std::ops::Range<u64> = 0..40;
/// How long some transactions stay open.
const LATE_MILLIS: std::ops::Range<u64> = 1..60;
/// The most keys of one bulk.
const BULK: usize = 8;
/// The range of versions of one rival.
const EACH: i64 = 1_000_000;

/// One connection, which is replaced after a failure.
pub(super) struct Rival {
    url: String,
    conn: Option<AsyncPgConnection>,
    rng: StdRng,
    place: i64,
    version: i64,
    shared: i64,
    told: Told,
}

impl Rival {
    /// It also has a key of each rule for itself.
    pub(super) fn new(url: String, seed: u64, place: i64, shared: i64) -> Self {
        // Keys come and go all the time, so bulks often have to begin again after a deadlock. They need not wait a
        // second for it.
        let url = url + "&options=-cdeadlock_timeout%3D50ms";
        let rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(place.unsigned_abs()));
        Self { url, conn: None, rng, place, version: place * EACH, shared, told: Told::default() }
    }

    /// Enqueues until it is asked to stop. Returns the answers.
    pub(super) async fn race(mut self, stop: CancellationToken) -> Result<Told> {
        while !stop.is_cancelled() {
            self.step().await?;
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(PAUSE_MILLIS))).await;
        }
        Ok(self.told)
    }

    /// Enqueues one job with this key. Returns whether it is new.
    pub(super) async fn enqueue_one(&mut self, key: WorkKey) -> Result<bool> {
        self.perform(vec![key], Duration::ZERO, true).await?;
        Ok(self.told.newest().is_some_and(Answer::is_new))
    }

    pub(super) fn told(self) -> Told {
        self.told
    }

    /// One job, or a bulk with many of the keys in any order. In a transaction there is only one of both: the
    /// application that takes keys one after the other must know their order itself.
    async fn step(&mut self) -> Result<()> {
        let mut keys: Vec<WorkKey> = (0..Keeping::ALL.len())
            .flat_map(|rule| (0..self.shared).chain([self.own()]).map(move |number| WorkKey { rule, number }))
            .collect();
        keys.shuffle(&mut self.rng);
        // Jobs with the same rule are enqueued by another statement.
        if self.rng.random_bool(0.5) {
            let rule = keys[0].rule;
            keys.retain(|key| key.rule == rule);
        }
        let many = if self.rng.random_bool(0.4) { self.rng.random_range(2..=BULK) } else { 1 };
        keys.truncate(many);
        let late = if self.rng.random_bool(0.4) { self.rng.random_range(LATE_MILLIS) } else { 0 };
        let commits = self.rng.random_bool(0.75);
        self.perform(keys, Duration::from_millis(late), commits).await
    }

    /// The number of its own keys.
    fn own(&self) -> i64 {
        self.shared + self.place
    }

    async fn perform(&mut self, keys: Vec<WorkKey>, late: Duration, commits: bool) -> Result<()> {
        let versions: Vec<i64> = keys.iter().zip(1..).map(|(_, number)| self.version + number).collect();
        self.version += i64::try_from(keys.len())?;
        let jobs = keys.iter().zip(&versions).map(|(key, version)| key.job(*version)).collect::<Result<Vec<_>, _>>()?;
        let mut conn = self.connection().await;
        let done = tokio::time::timeout(LIMIT, enqueue(&mut conn, jobs, late, commits)).await;
        let (answers, outcome) = match done {
            Ok(Ok(answers)) => (answers, if commits { CommitOutcome::Acknowledged } else { CommitOutcome::RolledBack }),
            // Without a reply, only a transaction without a commit has a known outcome. An error is a loss of the
            // connection, or a fault.
            failed => {
                if let Ok(Err(error)) = failed
                    && conn.batch_execute("rollback; select 1").await.is_ok()
                {
                    self.told.refused(error.to_string());
                }
                (Vec::new(), if commits { CommitOutcome::Unknown } else { CommitOutcome::RolledBack })
            }
        };
        if !answers.is_empty() {
            self.conn = Some(conn);
        }
        for (place, (key, version)) in keys.into_iter().zip(versions).enumerate() {
            let is_own = key.number == self.own();
            self.told.push(Answer { key, version, is_own, outcome, enqueued: answers.get(place).copied() });
        }
        Ok(())
    }

    async fn connection(&mut self) -> AsyncPgConnection {
        loop {
            if let Some(conn) = self.conn.take() {
                return conn;
            }
            match tokio::time::timeout(LIMIT, AsyncPgConnection::establish(&self.url)).await {
                Ok(Ok(conn)) => return conn,
                _ => tokio::time::sleep(Duration::from_millis(PAUSE_MILLIS.end)).await,
            }
        }
    }
}

async fn enqueue(
    conn: &mut AsyncPgConnection,
    mut jobs: Vec<NewJob>,
    late: Duration,
    commits: bool,
) -> Result<Vec<Enqueued>, DieselError> {
    let mut answers = Vec::new();
    let ended = conn
        .transaction(async |conn| {
            answers = match jobs.len() {
                1 => vec![jobs.remove(0).enqueue(conn).await.map_err(DieselError::from)?],
                _ => enqueue_all(conn, jobs).await.map_err(DieselError::from)?,
            };
            tokio::time::sleep(late).await;
            if commits { Ok(()) } else { Err(DieselError::RollbackTransaction) }
        })
        .await;
    match ended {
        Ok(()) => Ok(answers),
        Err(DieselError::RollbackTransaction) if !commits => Ok(answers),
        Err(error) => Err(error),
    }
}
