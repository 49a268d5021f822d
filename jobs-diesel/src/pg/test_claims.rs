//! Claims and rescans on a database of their own, by subject.

mod floors;
mod levels;
mod queues;
mod rescans;

use std::time::{Duration, Instant};

use chrono::DateTime;
use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::{Claim, RescanReason, Rescanned, Storage as _, Waiting, Wanted, WorkerInfo};

use super::PgStorage;
use super::lag::{LONGEST_LAG, Lag};
use super::levels::{Plan, Scan};
use super::queries::claim::ClaimQuery;
use super::queries::claim_few::ClaimFewQuery;
use super::queries::discover::{DiscoverQuery, DiscoverRow};
use super::tests::{buffers, database, run};

/// A claim that begins at its floors touches no more buffers than this.
const FEW: u64 = 60;

struct World {
    admin: AsyncPgConnection,
    name: String,
    storage: PgStorage,
    conn: AsyncPgConnection,
    claim: Claim,
}

impl World {
    /// A database with a worker that wants this many jobs of kind `k` from each of these queues.
    async fn new(slots: usize, queues: &[&str]) -> Self {
        let (admin, name, storage) = database().await;
        let worker = WorkerId::generate();
        register(&storage, worker).await;
        let wanted = queues.iter().map(|queue| Wanted::new(*queue, slots)).collect();
        let conn = storage.connector.connect().await.unwrap();
        Self { admin, name, storage, conn, claim: Claim::new(worker, wanted, ["k".to_owned()]) }
    }

    async fn sql(&mut self, sql: &str) {
        self.conn.batch_execute(sql).await.unwrap();
    }

    /// How many buffers the worker's next claim would touch.
    async fn buffers(&mut self) -> u64 {
        let plan = self.storage.levels(self.claim.worker, |levels| levels.plan_from_floors(&self.claim));
        let few = match ClaimFewQuery::new(&self.claim, &plan) {
            Some(few) => buffers(&mut self.conn, few).await,
            None => 0,
        };
        buffers(&mut self.conn, ClaimQuery::new(&self.claim, &plan)).await.max(few)
    }

    /// How many buffers a claim that begins at the bottom would touch.
    async fn buffers_from_the_bottom(&mut self) -> u64 {
        let scan =
            Scan { queue: 0, hi: 0, lo: 0, floor: Some(DateTime::UNIX_EPOCH), resume_at: None, try_all_rows: true };
        let plan = Plan { scans: vec![scan], of_queue: std::iter::once(0..1).collect(), lag: Duration::ZERO };
        buffers(&mut self.conn, ClaimQuery::new(&self.claim, &plan)).await
    }

    /// Runs jobs one by one, for longer than the lag.
    async fn a_while(&mut self) {
        self.has_usual_lag(self.claim.worker);
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            run(&self.storage, &mut self.conn, &self.claim, 1).await;
        }
    }

    /// A worker that finds nothing, for longer than the lag.
    async fn an_idle_while(&self) {
        self.has_usual_lag(self.claim.worker);
        for _ in 0..2 {
            // The lag of two seconds must pass. A busy machine waits longer, and finds nothing as well.
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            assert_eq!(self.storage.claim(&self.claim).await.unwrap().len(), 0);
            self.storage.next_due(&self.claim, Waiting::Available { within: Duration::from_secs(3) }).await.unwrap();
        }
    }

    /// The storages of tests have a lag that no test exceeds. From now on this worker has the lag of other storages.
    fn has_usual_lag(&self, worker: WorkerId) {
        self.storage.levels(worker, |levels| levels.lag = Lag::new(LONGEST_LAG, Instant::now()));
    }

    /// Closes all sessions, so that the server has counted all that they have changed.
    async fn changes_are_counted(&mut self) {
        self.storage.own.retain(|_, _| false);
        self.conn = self.storage.connector.connect().await.unwrap();
        let count = "(select count(*) from pg_stat_activity
            where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid())";
        let others = || diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>(count));
        while others().get_result::<i64>(&mut self.conn).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Makes the worker believe that its last rescan found nothing and took a minute. Returns how many changes of
    /// `jobs.ready` the server had counted.
    async fn last_rescan_took_long(&mut self) -> Option<i64> {
        let (worker, now) = (self.claim.worker, Instant::now());
        let gaps = self.storage.levels(worker, |levels| levels.plan_of_all(&self.claim, now)).gaps();
        let rows: Vec<DiscoverRow> = DiscoverQuery::new(&self.claim, &gaps).load(&mut self.conn).await.unwrap();
        let changes = rows.last().unwrap().changes;
        self.storage.levels(worker, |levels| levels.note_unchanged(true, changes, now, Duration::from_secs(60)));
        changes
    }

    /// A rescan as idle workers make it.
    async fn rescan(&self) -> Rescanned {
        self.storage.rescan(&self.claim, RescanReason::Routine).await.unwrap()
    }

    /// Claims as a worker does, with a rescan from time to time, until this many jobs have come.
    async fn claim_all(&self, jobs: usize) -> usize {
        let (mut claimed, asked) = (0, Instant::now());
        while claimed < jobs && asked.elapsed() < Duration::from_secs(600) {
            for _ in 0..20 {
                claimed += self.storage.claim(&self.claim).await.unwrap().len();
            }
            self.storage.rescan(&self.claim, RescanReason::Requested).await.unwrap();
        }
        claimed
    }

    async fn end(self) {
        let Self { mut admin, name, storage, conn, .. } = self;
        drop((storage, conn));
        admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
    }
}

async fn register(storage: &PgStorage, id: WorkerId) {
    let info = WorkerInfo::new(id, Duration::from_secs(3600));
    storage.register(&info).await.unwrap();
}
