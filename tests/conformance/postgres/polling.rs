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
            polled.upkeep.unwrap()
        };
        let nothing = Upkeep { settings: upkeep().await.settings, ..Upkeep::default() };
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

        let mut expiring = job();
        expiring.run_at = RunAt::After(HOUR);
        let id = enqueue(&f, expiring).await;
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
        let next = polled.upkeep.unwrap().next.unwrap();
        assert!(polled.due.is_none() && next > HOUR && next <= 2 * HOUR, "{polled:?}");
        sql.batch_execute("update jobs.ready set run_at = now()").await.unwrap();
        assert_eq!(db.storage.poll(&claim, HOUR).await.unwrap().upkeep, Some(Upkeep { rescue: true, ..nothing }));
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

/// Whether a live worker serves them is then found out by a count of all jobs.
#[test]
fn a_poll_finds_jobs_that_have_been_due_for_a_while_wherever_they_wait() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let idle = worker(db).await;
        let mut sql = AsyncPgConnection::establish(&f.url).await.unwrap();
        // Every second poll looks for them.
        let found = async || {
            let mut overdue = false;
            for _ in 0..2 {
                let polled = db.storage.poll(&wants(idle, &[("default", 1)]), HOUR).await.unwrap();
                overdue |= polled.upkeep.unwrap().overdue;
            }
            overdue
        };
        assert!(!found().await, "no job waits");
        for (queue, kind, hidden_by) in [
            ("nobodys", "job", ""),
            ("default", "of_a_newer_program", ""),
            ("nobodys", "job", ", ('nobodys', 'job', '{}', 5, now() + interval '1 hour')"),
            ("nobodys", "job", ", ('another', 'job', '{}', 0, now() + interval '1 hour')"),
            ("nobodys", "job", ", ('paused', 'job', '{}', 0, now() - interval '1 hour')"),
        ] {
            let jobs = |due: &str| {
                format!(
                    "delete from jobs.ready; insert into jobs.ready (queue, kind, args, priority, run_at)
                     values ('{queue}', '{kind}', '{{}}', 0, now() {due}){hidden_by}"
                )
            };
            let what = format!("{kind} in {queue} {hidden_by}");
            sql.batch_execute("insert into jobs.queue (name, paused) values ('paused', true)").await.unwrap();
            sql.batch_execute(&jobs("+ interval '1 hour'")).await.unwrap();
            assert!(!found().await, "not due: {what}");
            sql.batch_execute(&jobs("- interval '10 seconds'")).await.unwrap();
            assert!(found().await, "{what}");
            sql.batch_execute("insert into jobs.installation (frozen_at) values (now()) on conflict (only_row) do update set frozen_at = now()").await.unwrap();
            assert!(!found().await, "frozen: {what}");
            sql.batch_execute(&format!(
                "update jobs.installation set frozen_at = null; insert into jobs.queue (name, paused) values ('{queue}', true)"
            ))
            .await
            .unwrap();
            assert!(!found().await, "paused: {what}");
            sql.batch_execute("delete from jobs.queue").await.unwrap();
        }
    });
}

/// So a worker that no notification reaches follows the change, too.
#[test]
fn a_poll_says_whether_a_setting_has_changed() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let idle = worker(db).await;
        let settings = async || {
            let polled = db.storage.poll(&wants(idle, &[("default", 1)]), HOUR).await.unwrap();
            polled.upkeep.unwrap().settings
        };
        let mut sql = AsyncPgConnection::establish(&f.url).await.unwrap();
        let mut last = settings().await;
        for change in [
            "insert into jobs.queue (name, paused) values ('x', true)",
            "insert into jobs.queue (name, paused) values ('y', true)",
            "update jobs.queue set paused = false, slots = 2 where name = 'x'",
            "delete from jobs.queue where name = 'x'",
            "insert into jobs.kind (name, paused) values ('y', true)",
            "insert into jobs.limit_setting (name, most, set_by) values ('y', 2, 'ann')",
            "insert into jobs.retention (kind, state, keep) values ('y', 1, '1 day'), ('y', 2, null)",
            "update jobs.retention set keep = '2 days' where state = 1",
            "insert into jobs.installation (frozen_at) values (now()) on conflict (only_row) do update set frozen_at = now()",
            "insert into jobs.on_discarded (kind, enqueues, queue, priority, max_attempts, args, argument)
                 values ('y', 'z', 'default', 0, 1, '{}', 'job')",
            "insert into jobs.schedule (name, kind, expression, timezone, catch_up) values ('y', 'y', '@daily', 'UTC', 'skip')",
            "update jobs.schedule set paused = true",
            "delete from jobs.schedule",
        ] {
            sql.batch_execute(change).await.unwrap();
            let now = settings().await;
            assert_ne!(now, last, "{change}");
            last = now;
        }
        let tick = "insert into jobs.schedule (name, kind, expression, timezone, catch_up)
            values ('y', 'y', '@daily', 'UTC', 'skip')";
        sql.batch_execute(tick).await.unwrap();
        last = settings().await;
        sql.batch_execute("update jobs.schedule set last_tick = now() + interval '1 day'").await.unwrap();
        assert_eq!(settings().await, last, "a tick is no change");
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

async fn is_notified(db: &Database, idle: WorkerId) -> bool {
    db.storage.poll(&wants(idle, &[("default", 1)]), HOUR).await.unwrap().is_notified
}

#[test]
fn a_poll_is_notified_only_while_its_worker_is_notified() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let idle = worker(db).await;
        let path = f.url.rsplit_once('/').unwrap().1;
        let name = path.split_once('?').map_or(path, |(name, _)| name);
        let listener = Listener::start(db);
        listener.jobs.notified().await;
        listener.settings.notified().await;
        assert!(is_notified(db, idle).await);
        admin(&format!("alter database {name} allow_connections false")).await;
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen %' and datname =";
        admin(&format!("{cut} '{name}'")).await;
        listener.jobs.notified().await;
        assert!(!is_notified(db, idle).await, "nobody listens");
        assert!(listener.settings.notified().now_or_never().is_none());
        admin(&format!("alter database {name} allow_connections true")).await;
        listener.settings.notified().await;
        assert!(is_notified(db, idle).await);
        listener.stop.cancel();
        listener.task.await.unwrap();
        assert!(is_notified(db, idle).await, "the worker listens no more");
    });
}

#[test]
fn a_worker_behind_a_pooler_in_transaction_mode_is_not_notified() {
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
            assert!(!is_notified(db, idle).await);
            let asked: Number =
                diesel::sql_query("select count(*) as number from asked").get_result(&mut sql).await.unwrap();
            if asked.number == 6 {
                break;
            }
        }
        // What the worker learns from the last answer changes nothing.
        for _ in 0..20 {
            assert!(!is_notified(db, idle).await);
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
            assert_eq!(polled.upkeep.unwrap().rescue, is_due, "{change}");
            assert_eq!(polled.due.is_some(), change == "crashes = 1", "{change}");
        }
    });
}
