//! What claims on unusual queues cost, in buffers of the server. Scan floors keep claims away from entries that they
//! cannot use, and rescans find the jobs that came below the floors.

use std::time::{Duration, Instant};

use chrono::DateTime;
use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{Claim, PassOn, RescanReason, Rescanned, Storage as _, Waiting, Wanted, WorkerInfo};
use diesel_jobs_core::{Finish, NewJob, Transition, WorkerId};

use super::PgStorage;
use super::lag::{LONGEST_LAG, Lag};
use super::levels::{Plan, Scan};
use super::queries::claim::{ClaimInTurnsQuery, ClaimQuery};
use super::queries::claim_few::ClaimFewQuery;
use super::queries::discover::{DiscoverQuery, DiscoverRow};
use super::queries::waiting_queues::WaitingQueuesQuery;
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

#[tokio::test]
async fn a_claim_of_few_passes_over_no_higher_priority() {
    let mut world = World::new(1, &["default"]).await;
    run(&world.storage, &mut world.conn, &world.claim, 1).await;
    for _ in 0..2 {
        assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 0);
    }
    assert!(world.storage.levels(world.claim.worker, |levels| levels.expects_few));
    world
        .sql("insert into jobs.ready (kind, args, priority) values ('k', '{}', 0), ('k', '{}', -5), ('k', '{}', 5)")
        .await;
    for priority in [5, 0, -5] {
        let claimed = world.storage.claim(&world.claim).await.unwrap();
        assert_eq!(claimed.iter().map(|job| job.priority).collect::<Vec<_>>(), [priority]);
    }
    world.end().await;
}

#[tokio::test]
async fn a_rescan_finds_what_claims_pass_by_and_says_when_it_could_not_look() {
    let mut world = World::new(5, &["default"]).await;
    crate::enqueue_all(&mut world.conn, vec![NewJob::raw("k", "{}")]).await.unwrap();
    let held = world.storage.claim(&world.claim).await.unwrap().remove(0);
    world.a_while().await;
    let (storage, claim) = (world.storage.clone(), world.claim.clone());
    assert_eq!(storage.rescan(&claim, RescanReason::Requested).await.unwrap(), Rescanned::Nothing);
    storage.finish(&[Finish::new(&held, Transition::Release)], PassOn::Nothing).await.unwrap();
    assert_eq!(storage.claim(&claim).await.unwrap().len(), 0, "it is back below the floor");
    assert_eq!(storage.next_due(&claim, Waiting::Available { within: Duration::MAX }).await.unwrap(), None);

    world.sql("begin; select pg_advisory_xact_lock(1785684595, 5)").await;
    assert_eq!(storage.rescan(&claim, RescanReason::Requested).await.unwrap(), Rescanned::Refused);
    let bypassing = Claim { bypass_limit: true, ..claim.clone() };
    assert_eq!(
        storage.rescan(&bypassing, RescanReason::Requested).await.unwrap(),
        Rescanned::Found,
        "a claim that bypasses the limit rescans nevertheless"
    );
    world.sql("rollback").await;
    assert_eq!(
        storage.rescan(&claim, RescanReason::Requested).await.unwrap(),
        Rescanned::Nothing,
        "claims begin there now"
    );
    assert_eq!(storage.claim(&claim).await.unwrap().len(), 1, "it is seen now");
    drop(storage);
    world.end().await;
}

/// Servers publish the counts of a session up to ten seconds late, from version 15 on.
#[tokio::test]
async fn an_expensive_rescan_is_left_out_until_the_server_counts_a_change() {
    let mut world = World::new(5, &["default"]).await;
    world.a_while().await;
    world.changes_are_counted().await;
    assert_eq!(world.rescan().await, Rescanned::Nothing);
    let before = world.last_rescan_took_long().await;
    // Before version 15, a session may keep its counts until its next statement, so nothing is left out there.
    let counts = "(current_setting('server_version_num')::integer >= 150000)";
    let counts = diesel::select(diesel::dsl::sql::<diesel::sql_types::Bool>(counts));
    let counts: bool = counts.get_result(&mut world.conn).await.unwrap();
    assert_eq!(before.is_some_and(|changes| changes > 0), counts, "{before:?}");
    // A change that is not counted shows that the rescan is left out.
    let straggler = |hours: u8| {
        format!(
            "insert into jobs.ready (kind, args, run_at) values ('k', '{{}}', now() - {hours} * '1 hour'::interval)"
        )
    };
    world.sql("set track_counts = off").await;
    world.sql(&straggler(1)).await;
    if !counts {
        assert_eq!(world.rescan().await, Rescanned::Found);
        return world.end().await;
    }
    assert_eq!(world.rescan().await, Rescanned::Nothing);
    let rescanned = world.storage.rescan(&world.claim, RescanReason::Requested).await.unwrap();
    assert_eq!(rescanned, Rescanned::Found, "a requested rescan is never skipped");

    world.sql("set track_counts = on").await;
    world.last_rescan_took_long().await;
    world.sql(&straggler(2)).await;
    world.changes_are_counted().await;
    assert_eq!(world.rescan().await, Rescanned::Found);
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 2);
    world.end().await;
}

#[tokio::test]
async fn an_old_snapshot_costs_a_claim_nothing() {
    let mut world = World::new(500, &["default"]).await;
    let mut forgotten = world.storage.connector.connect().await.unwrap();
    forgotten.batch_execute("begin isolation level repeatable read; select count(*) from jobs.ready").await.unwrap();
    for _ in 0..20 {
        run(&world.storage, &mut world.conn, &world.claim, 500).await;
    }
    world.a_while().await;
    let (from_floors, from_bottom) = (world.buffers().await, world.buffers_from_the_bottom().await);
    assert!(from_floors <= FEW, "{from_floors} buffers from the floors");
    assert!(from_bottom > 3 * from_floors, "{from_bottom} buffers from the bottom: the snapshot held nothing back");
    drop(forgotten);
    world.end().await;
}

#[tokio::test]
async fn a_claim_after_a_full_one_does_not_walk_over_what_that_took() {
    let mut world = World::new(500, &["default"]).await;
    let mut forgotten = world.storage.connector.connect().await.unwrap();
    forgotten.batch_execute("begin isolation level repeatable read; select count(*) from jobs.ready").await.unwrap();
    crate::enqueue_all(&mut world.conn, vec![NewJob::raw("k", "{}"); 10_000]).await.unwrap();
    let began = Instant::now();
    for _ in 0..18 {
        assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 500);
    }
    // All jobs were enqueued within the lag. The plan is for a time shortly after the last claim from the floor.
    world.claim.wanted = vec![Wanted::new("default", 5)];
    let plan = world.storage.levels(world.claim.worker, |levels| levels.plan(&world.claim, began));
    let going_on = buffers(&mut world.conn, ClaimQuery::new(&world.claim, &plan)).await;
    let from_bottom = world.buffers_from_the_bottom().await;
    assert!(from_bottom > 2 * going_on, "{going_on} buffers where the last left off, {from_bottom} from the bottom");
    drop(forgotten);
    world.end().await;
}

#[tokio::test]
async fn a_transaction_that_has_written_and_stays_open_costs_a_claim_nothing() {
    let mut world = World::new(500, &["default"]).await;
    let mut writer = world.storage.connector.connect().await.unwrap();
    writer
        .batch_execute("create table public.import (n integer); begin; insert into public.import values (1)")
        .await
        .unwrap();
    for _ in 0..20 {
        run(&world.storage, &mut world.conn, &world.claim, 500).await;
    }
    world.a_while().await;
    let from_floors = world.buffers().await;
    assert!(from_floors <= FEW, "{from_floors} buffers from the floors");
    drop(writer);
    world.end().await;
}

#[tokio::test]
async fn what_commits_late_is_found_by_a_rescan() {
    let mut world = World::new(5, &["default"]).await;
    let mut late = world.storage.connector.connect().await.unwrap();
    late.batch_execute("begin").await.unwrap();
    crate::enqueue_all(&mut late, vec![NewJob::raw("k", "{}"); 3]).await.unwrap();
    world.a_while().await;
    late.batch_execute("commit").await.unwrap();
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 0, "it is below the floor");
    assert_eq!(world.storage.rescan(&world.claim, RescanReason::Requested).await.unwrap(), Rescanned::Found);
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 3, "all of them, not the first only");
    drop(late);
    world.end().await;
}

#[tokio::test]
async fn jobs_of_an_unknown_kind_cost_a_claim_nothing_at_any_priority() {
    let mut world = World::new(5, &["default"]).await;
    let unknown = "insert into jobs.ready (kind, priority, args)
        select 'of_a_newer_program', p, '{}' from generate_series(1, 4000), unnest('{7, 0, -7}'::smallint[]) p";
    world.sql(unknown).await;
    // While the worker is idle, jobs of an unknown kind cost nothing.
    world.storage.rescan(&world.claim, RescanReason::Requested).await.unwrap();
    world.an_idle_while().await;
    let idle = world.buffers().await;
    assert!(idle <= FEW, "{idle} buffers");
    // Nor do they while the worker runs jobs and more of them come.
    world.sql(unknown).await;
    world.a_while().await;
    let busy = world.buffers().await;
    assert!(busy <= FEW, "{busy} buffers");
    // A worker that starts later than the lag finds its own jobs behind them.
    crate::enqueue_all(&mut world.conn, vec![NewJob::raw("k", "{}"); 3]).await.unwrap();
    tokio::time::sleep(LONGEST_LAG + Duration::from_secs(1)).await;
    let newcomer = Claim { worker: WorkerId::generate(), ..world.claim.clone() };
    register(&world.storage, newcomer.worker).await;
    world.has_usual_lag(newcomer.worker);
    assert_eq!(world.storage.claim(&newcomer).await.unwrap().len(), 3);
    world.end().await;
}

#[tokio::test]
async fn jobs_that_are_not_committed_cost_a_claim_nothing() {
    let mut world = World::new(5, &["default"]).await;
    let mut bulk = world.storage.connector.connect().await.unwrap();
    bulk.batch_execute("begin; insert into jobs.ready (kind, args) select 'k', '{}' from generate_series(1, 20000)")
        .await
        .unwrap();
    world.a_while().await;
    let meanwhile = world.buffers().await;
    assert!(meanwhile <= FEW, "{meanwhile} buffers");
    bulk.batch_execute("commit").await.unwrap();
    assert_eq!(world.storage.rescan(&world.claim, RescanReason::Requested).await.unwrap(), Rescanned::Found);
    for _ in 0..10 {
        assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 5, "one claim after the other finds them");
    }
    drop(bulk);
    world.end().await;
}

#[tokio::test]
async fn a_clock_that_was_set_back_leaves_no_floor_ahead() {
    let mut world = World::new(5, &["default"]).await;
    world.a_while().await;
    // Makes the worker believe that the clock was an hour later.
    let ahead = chrono::Utc::now() + Duration::from_secs(3600);
    world.storage.levels(world.claim.worker, |levels| {
        let plan = levels.plan_from_floors(&world.claim);
        levels.nothing_due(&world.claim, &plan, ahead, Vec::new());
    });
    crate::enqueue_all(&mut world.conn, vec![NewJob::raw("k", "{}")]).await.unwrap();
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 0);
    world.storage.next_due(&world.claim, Waiting::Available { within: Duration::from_secs(3) }).await.unwrap();
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 1, "the step was noticed");
    world.end().await;
}

/// There are more levels than a claim reads.
#[tokio::test]
async fn a_backlog_at_many_priorities_is_claimed_to_its_end() {
    let mut world = World::new(25, &["default"]).await;
    let backlog = "insert into jobs.ready (kind, args, run_at, priority)
        select 'k', '{}', now() - '1 hour'::interval, priority::smallint from generate_series(-100, 100) priority, generate_series(1, 10)";
    world.sql(backlog).await;
    let first = world.storage.claim(&world.claim).await.unwrap();
    assert!(first.iter().all(|job| job.priority >= 97), "the highest come first");
    assert_eq!(first.len() + world.claim_all(2010 - first.len()).await, 2010);
    world.end().await;
}

#[tokio::test]
async fn a_claim_from_many_queues_costs_what_the_queues_with_jobs_cost() {
    let names: Vec<String> = (0..1000).map(|queue| format!("tenant_{queue}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(2, &names).await;
    world.storage.claim(&world.claim).await.unwrap();
    let job = |queue: &str| {
        let mut job = NewJob::raw("k", "{}");
        job.queue = queue.to_owned().into();
        job
    };
    crate::enqueue_all(&mut world.conn, vec![job("tenant_7"), job("tenant_990"), job("tenant_990")]).await.unwrap();
    assert_eq!(world.claim_all(3).await, 3);
    crate::enqueue_all(&mut world.conn, names.iter().map(|queue| job(queue)).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(world.claim_all(1000).await, 1000, "every queue has its turn");
    assert_eq!(
        world.storage.next_due(&world.claim, Waiting::Available { within: Duration::MAX }).await.unwrap(),
        None,
        "nothing is left"
    );
    world.end().await;
}

/// As a worker with patterns asks for them, about once a second.
#[tokio::test]
async fn waiting_queues_cost_a_few_entries_each_however_many_jobs_wait() {
    let mut world = World::new(1, &["a"]).await;
    world
        .sql(
            "insert into jobs.ready (kind, args, queue, priority)
             select 'k', '{}', (array['a', 'b', 'c'])[1 + n % 3], n % 5 from generate_series(1, 100000) n",
        )
        .await;
    let available = Waiting::Available { within: Duration::MAX };
    assert_eq!(world.storage.waiting_queues(available).await.unwrap(), ["a", "b", "c"]);
    for statistics in ["select 1", "vacuum analyze jobs.ready"] {
        world.sql(statistics).await;
        let touched = buffers(&mut world.conn, WaitingQueuesQuery).await;
        assert!(touched <= FEW, "{touched} buffers after {statistics}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_claim_of_queues_in_turns_reads_no_more_queues_than_it_needs() {
    let names: Vec<String> = (0..60).map(|queue| format!("q{queue:02}")).collect();
    let mut world = World::new(10, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world
        .sql("insert into jobs.ready (kind, args, queue) select 'k', '{}', 'q' || lpad((n % 60)::text, 2, '0') from generate_series(0, 5999) n")
        .await;
    world.sql("analyze jobs.ready").await;
    let plan = world.storage.levels(world.claim.worker, |levels| levels.plan_from_floors(&world.claim));
    let all = buffers(&mut world.conn, ClaimQuery::new(&world.claim, &plan)).await;
    let claim = Claim { most: Some(2), ..world.claim.clone() };
    let some = buffers(&mut world.conn, ClaimInTurnsQuery::new(&claim, &plan).unwrap()).await;
    assert!(some * 10 < all, "{some} buffers for 2 jobs, {all} for 600");
    world.end().await;
}
