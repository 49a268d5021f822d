//! The poll of an idle worker also says what its services have to do.

use std::sync::Arc;
use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{Claim, Upkeep};
use diesel_jobs_core::{RunAt, WorkerId};
use diesel_jobs_storage::Database;
use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Postgres, admin};
use crate::bench::*;
use crate::client::Number;
use crate::fixture::{Port as _, run};
use crate::limiting::{admit, limited};

#[test]
fn a_poll_says_what_there_is_to_do_besides_jobs() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let idle = worker(db).await;
        let upkeep = async || {
            let polled = db.storage.poll(&wants(idle, &[("default", 1)]), HOUR).await.unwrap();
            assert!(polled.is_complete, "no worker listens in vain");
            polled.upkeep
        };
        let nothing = Upkeep::default();
        assert_eq!(upkeep().await, nothing);

        mortal(db).await;
        assert_eq!(upkeep().await, Upkeep { rescue: true, ..nothing });
        db.storage.rescue(POLICY).await.unwrap();
        assert_eq!(upkeep().await, nothing);

        let mut sql = AsyncPgConnection::establish(&f.url).await.unwrap();
        // Asserts that the next sweep comes between these times from now. Returns whether one is to be made at once.
        let sweeps_between = async |from: Duration, to: Duration| {
            let found = upkeep().await;
            let next = found.next.unwrap();
            assert!(next > from && next <= to, "{next:?}");
            assert_eq!(found, Upkeep { sweep: found.sweep, next: Some(next), ..nothing });
            found.sweep
        };
        let mut later = limited("x");
        later.run_at = RunAt::After(HOUR);
        enqueue(&f, later).await;
        assert!(sweeps_between(HOUR / 2, HOUR).await, "a new held job has a nudge");
        admit(db).await;
        assert!(!sweeps_between(HOUR / 2, HOUR).await);

        let id = enqueue(&f, job()).await;
        let expires = format!(
            "insert into jobs.expiry (job_id, start_by, after) values ({id}, now() + interval '90 minutes', '1 hour')"
        );
        sql.batch_execute(&expires).await.unwrap();
        assert!(!sweeps_between(HOUR / 2, HOUR).await);
        // As if a sweep had passed over it, because its queue is paused or its row is locked.
        sql.batch_execute("update jobs.held set run_at = now() - interval '1 second'").await.unwrap();
        assert!(sweeps_between(HOUR, 2 * HOUR).await, "what is due hides nothing that comes later");
        sql.batch_execute("update jobs.expiry set start_by = now() - interval '1 second'").await.unwrap();
        assert_eq!(upkeep().await, Upkeep { sweep: true, ..nothing });
        sql.batch_execute("delete from jobs.held").await.unwrap();
        assert_eq!(upkeep().await, Upkeep { sweep: true, ..nothing });
        sql.batch_execute("delete from jobs.expiry; delete from jobs.ready; delete from jobs.nudge").await.unwrap();
        assert_eq!(upkeep().await, nothing);

        // Quarantined jobs are none of those that are due.
        let claim = Claim { quarantined_at: 2, ..wants(idle, &[("default", 1)]) };
        enqueue(&f, job()).await;
        sql.batch_execute("update jobs.ready set crashes = 2, run_at = now() + interval '90 minutes'").await.unwrap();
        let polled = db.storage.poll(&claim, HOUR).await.unwrap();
        let next = polled.upkeep.next.unwrap();
        assert!(polled.due.is_none() && next > HOUR && next <= 2 * HOUR, "{polled:?}");
        sql.batch_execute("update jobs.ready set run_at = now()").await.unwrap();
        assert_eq!(db.storage.poll(&claim, HOUR).await.unwrap().upkeep, Upkeep { rescue: true, ..nothing });
        sql.batch_execute("delete from jobs.ready").await.unwrap();

        let rate = "insert into jobs.rate (limit_name, limit_key, full_at, next_at)
            values ('a', 'a', now(), now() + interval '90 minutes')";
        sql.batch_execute(rate).await.unwrap();
        assert!(!sweeps_between(HOUR, 2 * HOUR).await);
        sql.batch_execute("update jobs.rate set next_at = now()").await.unwrap();
        assert_eq!(upkeep().await, Upkeep { sweep: true, ..nothing });
        sql.batch_execute("delete from jobs.rate").await.unwrap();

        let operation = "insert into jobs.operation (action, filter, actor, last_id) values ('cancel', '{}', 'ann', 9)";
        sql.batch_execute(operation).await.unwrap();
        assert_eq!(upkeep().await, Upkeep { operation: true, ..nothing });
        sql.batch_execute("update jobs.operation set finished_at = now()").await.unwrap();
        assert_eq!(upkeep().await, nothing);
    });
}

/// A listener of this storage, which tells of each notification that it receives.
struct Listener {
    jobs: Arc<Notify>,
    settings: Arc<Notify>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Listener {
    fn start(db: &Database) -> Self {
        let (jobs, settings, stop) = (Arc::<Notify>::default(), Arc::<Notify>::default(), CancellationToken::new());
        let (storage, wakes, stopped) = (db.storage.clone(), (jobs.clone(), settings.clone()), stop.clone());
        let listen = async move { storage.listen(&["default".to_owned()], wakes.0, wakes.1, stopped).await };
        Self { jobs, settings, stop, task: tokio::spawn(listen) }
    }
}

async fn is_complete(db: &Database, idle: WorkerId) -> bool {
    db.storage.poll(&wants(idle, &[("default", 1)]), HOUR).await.unwrap().is_complete
}

/// Otherwise the worker would not hear that a setting has changed.
#[test]
fn a_poll_is_complete_only_while_its_worker_is_notified() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let idle = worker(db).await;
        let path = f.url.rsplit_once('/').unwrap().1;
        let name = path.split_once('?').map_or(path, |(name, _)| name);
        let listener = Listener::start(db);
        listener.jobs.notified().await;
        listener.settings.notified().await;
        assert!(is_complete(db, idle).await);
        admin(&format!("alter database {name} allow_connections false")).await;
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen %' and datname =";
        admin(&format!("{cut} '{name}'")).await;
        listener.jobs.notified().await;
        assert!(!is_complete(db, idle).await, "nobody listens");
        assert!(listener.settings.notified().now_or_never().is_none());
        admin(&format!("alter database {name} allow_connections true")).await;
        listener.settings.notified().await;
        assert!(is_complete(db, idle).await);
        listener.stop.cancel();
        listener.task.await.unwrap();
        assert!(is_complete(db, idle).await, "the worker listens no more");
    });
}

#[test]
fn a_poll_behind_a_pooler_in_transaction_mode_is_not_complete() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let idle = worker(db).await;
        // As behind such a pooler, all connections say that they have the same session.
        let pooled = "create table asked ();
            create function pg_backend_pid() returns integer language sql
                as 'insert into public.asked default values; select 7';
            do $$ begin
                execute format('alter database %I set search_path = public, pg_catalog', current_database());
            end $$";
        let mut sql = AsyncPgConnection::establish(&f.url).await.unwrap();
        sql.batch_execute(pooled).await.unwrap();
        let listener = Listener::start(db);
        loop {
            assert!(!is_complete(db, idle).await);
            let asked: Number =
                diesel::sql_query("select count(*) as number from asked").get_result(&mut sql).await.unwrap();
            if asked.number == 6 {
                break;
            }
        }
        // What the worker learns from the last answer changes nothing.
        for _ in 0..20 {
            assert!(!is_complete(db, idle).await);
        }
        listener.stop.cancel();
        listener.task.await.unwrap();
    });
}

/// It is no job of the worker, but one that its rescuer finds.
#[test]
fn a_poll_finds_a_quarantined_job_when_it_is_due() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let idle = worker(db).await;
        enqueue(&f, job()).await;
        let mut sql = AsyncPgConnection::establish(&f.url).await.unwrap();
        let mut wary = wants(idle, &[("default", 1)]);
        wary.quarantined_at = 2;
        for (change, is_due) in
            [("crashes = 1", false), ("crashes = 2", true), ("run_at = run_at + interval '1 hour'", false)]
        {
            sql.batch_execute(&format!("update jobs.ready set {change}")).await.unwrap();
            let polled = db.storage.poll(&wary, HOUR).await.unwrap();
            assert_eq!(polled.upkeep.rescue, is_due, "{change}");
            assert_eq!(polled.due.is_some(), change == "crashes = 1", "{change}");
        }
    });
}
