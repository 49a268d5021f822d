//! A job is found by its id without reading all waiting jobs, measured in buffers of the server. This holds for our own
//! statements and for a user's SQL. It holds right after a bulk insert, and after rows have come and gone in any order.

use std::time::Instant;

use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{Operated, Operator as _};

use super::queries::audited::Actor;
use super::queries::by_id::by_id;
use super::queries::operate::{CancelQuery, RescheduleQuery, RetryQuery};
use super::tests::{ANALYZE, buffers, database, plan, touched, url};
use super::{PgStorage, queries::inspect};

const WAITING: i64 = 1_000_000;

/// A query for one job, through the view, touches no more buffers than this.
const FEW: u64 = 40;

/// The same limit for each job that is moved, including the writes to the other table.
const FEW_FOR_A_MOVE: u64 = 40;

const ACTOR: Actor<'static> = Actor { name: "ann", is_audited: true };

#[derive(diesel::QueryableByName)]
struct Line {
    #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
    line: String,
}

struct World {
    storage: PgStorage,
    /// With the settings of the worker's own connections and the command line's.
    own: AsyncPgConnection,
    /// With the settings of a user's connection.
    users: AsyncPgConnection,
}

fn bulk(jobs: i64) -> String {
    format!("insert into jobs.ready (kind, args) select 'k', '{{\"id\": 1}}' from generate_series(1, {jobs})")
}

impl World {
    /// Deletes all jobs and vacuums the table, which keeps its pages and counts as empty. Then inserts as many jobs
    /// again.
    async fn is_refilled(&mut self) {
        self.sql(&bulk(WAITING)).await;
        self.sql("delete from jobs.ready").await;
        self.sql("vacuum (truncate false) jobs.ready, jobs.finished").await;
        self.sql(&bulk(WAITING)).await;
    }

    async fn sql(&mut self, sql: &str) {
        self.users.batch_execute(sql).await.unwrap();
    }

    /// The id at every twentieth part of the waiting jobs.
    async fn ids(&mut self) -> Vec<i64> {
        let query = "select percentile_disc(array(select n / 20.0 from generate_series(1, 20) n)) within group (order by id) as ids from jobs.ready";
        #[derive(diesel::QueryableByName)]
        struct Ids {
            #[diesel(sql_type = diesel::sql_types::Array<BigInt>)]
            ids: Vec<i64>,
        }
        let ids: Ids = diesel::sql_query(query).get_result(&mut self.users).await.unwrap();
        ids.ids
    }

    /// How many buffers a user's statement touches, and its plan.
    async fn users_buffers(&mut self, sql: &str) -> (u64, String) {
        let explain = format!("explain (analyze, buffers, costs off) {sql}");
        let lines: Vec<Line> = diesel::sql_query(explain).load(&mut self.users).await.unwrap();
        let plan: Vec<&str> = lines.iter().map(|line| line.line.as_str()).collect();
        (touched(lines.iter().map(|line| &line.line)), plan.join("\n"))
    }

    async fn looks_are_short(&mut self, when: &str) {
        for id in self.ids().await.into_iter().chain([i64::MAX]) {
            let plan = plan(&mut self.own, "analyze, buffers, costs off", by_id(&[id], inspect::one())).await;
            let own = touched(plan.iter());
            assert!(own <= FEW, "{when}, by the worker's settings: {own} buffers for job {id}\n{}", plan.join("\n"));
            let (users, plan) = self.users_buffers(&format!("select * from jobs.job where id = {id}")).await;
            assert!(users <= FEW, "{when}, a user's select: {users} buffers for job {id}\n{plan}");
            let order =
                format!("insert into public.purchase values (1, {id}) on conflict (id) do update set job_id = {id}");
            self.sql(&order).await;
            let join = "select purchase.id, job.state from public.purchase join jobs.job on job.id = purchase.job_id where purchase.id = 1";
            let (joined, plan) = self.users_buffers(join).await;
            assert!(joined <= FEW, "{when}, a user's join: {joined} buffers for job {id}\n{plan}");
        }
    }

    /// Cancels 200 jobs that lie far apart, and makes them available again.
    async fn moves_are_short(&mut self, when: &str) {
        let ids: Vec<i64> = self.ids().await.iter().flat_map(|id| (id - 9..=*id).collect::<Vec<_>>()).collect();
        assert_eq!(ids.len(), 200);
        let most = FEW_FOR_A_MOVE * 200;
        let cancel = buffers(&mut self.own, CancelQuery::new(ids.clone(), ACTOR)).await;
        assert!(cancel <= most, "{when}: {cancel} buffers to cancel");
        let retry = buffers(&mut self.own, RetryQuery::new(ids.clone(), ACTOR)).await;
        assert!(retry <= most, "{when}: {retry} buffers to retry");
        let later = RescheduleQuery::new(ids.clone(), chrono::Utc::now() + chrono::TimeDelta::days(1), ACTOR);
        let reschedule = buffers(&mut self.own, later).await;
        assert!(reschedule <= most, "{when}: {reschedule} buffers to reschedule");

        let jobs: Vec<JobId> = ids.into_iter().map(JobId).collect();
        for (what, answers) in
            [("cancel", self.timed(when, "cancel", &jobs).await), ("retry", self.timed(when, "retry", &jobs).await)]
        {
            let done = answers.iter().filter(|answer| **answer == Operated::Done).count();
            assert!(done > 100, "{when}: {what} moved {done} of 200");
        }
    }

    /// Prints how long a person waits. There is no limit, because the machine may be busy.
    async fn timed(&self, when: &str, what: &str, jobs: &[JobId]) -> Vec<Operated> {
        let asked = Instant::now();
        let answers =
            if what == "cancel" { self.storage.cancel_many(jobs).await } else { self.storage.retry_many(jobs).await };
        eprintln!("{when}: {what} of {} jobs in {:?}", jobs.len(), asked.elapsed());
        let asked = Instant::now();
        assert!(self.storage.show(jobs[0]).await.unwrap().is_some());
        eprintln!("{when}: show in {:?}", asked.elapsed());
        answers.unwrap()
    }
}

#[tokio::test]
async fn a_million_waiting_jobs_cost_a_look_by_id_nothing() {
    let (mut admin, name, storage) = database().await;
    let own = storage.own_connector.connect().await.unwrap();
    let users = AsyncPgConnection::establish(&url(&name)).await.unwrap();
    let mut world = World { storage, own, users };
    world.sql("create table public.purchase (id bigint primary key, job_id bigint not null)").await;
    // The statements are planned here, while there are no jobs.
    assert!(world.storage.show(JobId(1)).await.unwrap().is_none());
    assert_eq!(world.storage.cancel(JobId(1)).await.unwrap(), Operated::NotFound);

    // The server has no statistics about jobs yet.
    world.is_refilled().await;
    world.looks_are_short("after a bulk").await;
    world.moves_are_short("after a bulk").await;

    // One job in twenty is deleted, at random places, and as many new jobs come in.
    world.sql("delete from jobs.ready where hashtext(id::text) % 20 = 0").await;
    world.sql("vacuum jobs.ready, jobs.finished").await;
    world.sql(&bulk(WAITING / 20)).await;
    world.looks_are_short("among old ones").await;
    world.moves_are_short("among old ones").await;

    world.sql("analyze jobs.ready").await;
    world.is_refilled().await;
    world.looks_are_short("refilled").await;
    world.moves_are_short("refilled").await;
    drop(world);
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

#[tokio::test]
async fn wrong_statistics_spoil_no_look_by_id() {
    let (mut admin, name, storage) = database().await;
    let mut own = storage.own_connector.connect().await.unwrap();
    let ids: Vec<i64> = (1..=200).collect();
    let full = "insert into jobs.ready (kind, args) select 'k', '{}' from generate_series(1, 1000)";
    // By its statistics, the server regards the queue as never full, then as empty, as full, and as empty again.
    let emptied = "delete from jobs.ready";
    let vacuum = "vacuum (truncate false) jobs.ready";
    for statistics in ["select 1", full, emptied, ANALYZE, full, ANALYZE, vacuum, emptied, vacuum, full] {
        own.batch_execute(statistics).await.unwrap();
        for lines in [
            plan(&mut own, "costs off", by_id(&ids, inspect::one())).await,
            plan(&mut own, "costs off", by_id(&ids[..1], inspect::one())).await,
        ] {
            let is_by_id = lines.iter().any(|line| line.contains("Index Scan using ready_id on ready"));
            assert!(is_by_id, "after {statistics}: {lines:#?}");
        }
    }
    drop((own, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}
