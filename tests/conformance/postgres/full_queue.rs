//! The server's queue of notifications, while a session that listens stays in a transaction. All databases of a server
//! share the queue, so each test has a server of its own. The queue can be made small from PostgreSQL 17 on. Before,
//! only a part of its 8 GB is filled.

use std::mem::ManuallyDrop;
use std::path::PathBuf;

use cluster::{Postgres as Binaries, Server, Stop};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{Action, Finding, Objectives, Severity};
use diesel_jobs_core::{Finish, JobId, Limit, NewJob, Transition, Unique};
use diesel_jobs_storage::{Database, Enqueue as _};
use futures_util::StreamExt as _;

use super::{Postgres, clients_of};
use crate::bench::*;
use crate::client::{Client, Number};
use crate::fixture::open;

/// The session that holds the queue up, and the server, which is stopped at the end.
struct Held {
    holder: AsyncPgConnection,
    fixture: ManuallyDrop<Postgres>,
    is_small: bool,
    server: Server,
    _files: tempfile::TempDir,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.server.halt(Stop::Immediate);
    }
}

impl Held {
    fn db(&self) -> &Database {
        &self.fixture.database
    }

    async fn session(&self) -> AsyncPgConnection {
        AsyncPgConnection::establish(&self.fixture.url).await.unwrap()
    }

    async fn usage(&self) -> f64 {
        let mut conn = self.session().await;
        let ppm = "select (pg_notification_queue_usage() * 1000000)::bigint as number";
        f64::from(u32::try_from(conn.number(ppm).await).unwrap()) / 1_000_000.0
    }

    /// Adds pages until this share of the queue is in use, or until it is full.
    async fn fill(&self, share: f64) {
        let mut other = self.session().await;
        while self.usage().await < share {
            let pages = if self.is_small { 1 } else { 1000 };
            let page =
                format!("select pg_notify('filler', lpad(n::text, 7990, ' ')) from generate_series(1, {pages}) n");
            if let Err(full) = other.batch_execute(&page).await {
                assert!(full.to_string().contains("too many notifications"), "{full}");
                return;
            }
        }
    }

    async fn finding(&self, db: &Database) -> Vec<Finding> {
        let findings = db.operator.examine(Objectives::default(), None).await.unwrap();
        findings.into_iter().filter(|one| one.check == "notification_queue" || one.check == "listen").collect()
    }
}

/// A migrated database on a server of its own, whose queue of notifications is held up by a session of this database.
async fn held_up_in(database: &str) -> Held {
    let files = tempfile::tempdir().unwrap();
    let bin: PathBuf = std::env::var_os("JOBS_TEST_PG_BIN").expect("`cargo xtask test` sets it").into();
    let server = Server::at(files.path(), &Binaries { bin: bin.clone(), libpq: None }).unwrap().quiet();
    server.prepare().unwrap();
    let version = std::process::Command::new(bin.join("postgres")).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let is_small = version.split_whitespace().nth(2).unwrap().split('.').next().unwrap().parse::<u32>().unwrap() >= 17;
    let small = if is_small { "max_notify_queue_pages = 64" } else { "" };
    let port = server.launch(None, &format!("fsync = off\nsynchronous_commit = off\n{small}")).unwrap();
    let url = Server::url(port);
    let mut conn = AsyncPgConnection::establish(&url).await.unwrap();
    diesel_jobs_storage::TransactionConnection::migrate(&mut conn).await.unwrap();
    if database != "postgres" {
        conn.batch_execute(&format!("create database {database}")).await.unwrap();
    }
    let name = "postgres".to_owned();
    let fixture = ManuallyDrop::new(Postgres { name, database: open(&url).await, url: url.clone() });
    let theirs = url.replace("/postgres", &format!("/{database}"));
    let mut holder = AsyncPgConnection::establish(&theirs).await.unwrap();
    holder.batch_execute("set application_name = 'forgetful'; listen anything").await.unwrap();
    holder.batch_execute("begin; select 'a secret'").await.unwrap();
    Held { holder, fixture, is_small, server, _files: files }
}

fn of(key: &str) -> NewJob {
    NewJob::raw("a", format!(r#"{{"user":"{key}"}}"#))
}

/// Each form of an enqueue, on one connection.
async fn enqueues(name: &str, client: &mut dyn Client) -> Vec<JobId> {
    let unique = |key: &str| of(&format!("{name} {key}")).unique(Unique::new().by(&["user"])).unwrap();
    let limited = |key: &str| of(key).rule(Limit::new("stripe", 100)).unwrap();
    let mut expiring = unique("expiring");
    expiring.expires = Some(HOUR);
    let mut in_another_queue = job();
    in_another_queue.queue = "mail".into();
    let mut ids = Vec::new();
    for one in [job(), in_another_queue.clone(), unique("one"), limited("one"), expiring] {
        ids.push(client.enqueue(one).await.unwrap());
    }
    for many in [
        vec![job(); 3],
        vec![job(), in_another_queue],
        vec![unique("two"), unique("three")],
        vec![unique("four"), unique("one"), job()],
        vec![limited("two"), limited("three")],
        vec![limited("four"), job()],
    ] {
        ids.extend(client.enqueue_all(many).await.unwrap());
    }
    for sql in [
        "select jobs.enqueue('a') as number",
        "select jobs.enqueue('a', concurrency => 100) as number",
        "select jobs.enqueue('a', unique_by => '{}', on_conflict => 'replace') as number",
        "select jobs.enqueue('a', unique_by => '{}', on_conflict => 'replace') as number",
    ] {
        ids.push(JobId(client.number(sql).await));
    }
    ids
}

/// What workers and operators do with these jobs, and what notifies somebody.
async fn the_rest(held: &Held) {
    let db = held.db();
    let (worker, dead) = (worker(db).await, mortal(db).await);
    assert!(crate::limiting::admit(db).await > 0);
    let mut claimed = claim(db, worker, 4).await;
    let released: Vec<Finish> = claimed.drain(..2).map(|one| Finish::new(&one, Transition::Release)).collect();
    assert_eq!(db.storage.finish_all(&released).await.unwrap().len(), 2);
    let [one, other] = claimed.try_into().unwrap();
    assert!(finish(db, &one, cancel()).await);
    assert!(finish(db, &other, retry_in(std::time::Duration::ZERO)).await);
    db.operator.act(&Action::Retry, &[one.lease.job], "ann").await.unwrap();
    db.operator.act(&Action::Rerun, &[one.lease.job], "ann").await.unwrap();
    let scheduled = later(HOUR).enqueue(&mut held.session().await).await.unwrap().id();
    db.operator.act(&Action::RunNow, &[scheduled], "ann").await.unwrap();
    assert!(!claim(db, dead, 2).await.is_empty());
    held.session()
        .await
        .batch_execute("update jobs.worker set heartbeat_at = now() - interval '1 h' where lease < interval '1 s'")
        .await
        .unwrap();
    assert!(!rescue(db, POLICY).await.returned.is_empty());
    assert!(db.operator.freeze("ann", "a copy").await.unwrap() && db.operator.thaw("ann").await.unwrap());
    db.operator.set_limit("stripe", 200, "ann", None).await.unwrap();
}

fn test(claim: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(claim);
}

async fn sleeper(db: &Database) {
    let id = worker(db).await;
    db.storage.set_idle(id, true).await.unwrap();
}

#[test]
fn a_full_queue_of_notifications_fails_no_transaction_that_enqueues() {
    test(async {
        // A session of any database holds the queue up.
        for database in ["postgres", "another"] {
            let mut held = held_up_in(database).await;
            if !held.is_small {
                eprintln!(
                    "NOT TESTED: before PostgreSQL 17 the queue takes 8 GB; `cargo xtask versions --only 18` tests it"
                );
                return;
            }
            sleeper(held.db()).await;
            held.fill(2.0).await;
            let full = held.session().await.batch_execute("notify anything, 'one more'").await;
            assert!(full.unwrap_err().to_string().contains("too many notifications"), "the queue is full");
            let mut enqueued = Vec::new();
            for (name, mut client) in clients_of(&held.fixture.url).await {
                enqueued.extend(enqueues(name, &mut *client).await);
                client.begin().await;
                enqueued.push(client.enqueue(job()).await.unwrap());
                client.commit().await;
            }
            let shared = held.session().await;
            enqueued.push(job().enqueue(&mut &shared).await.unwrap().id());
            the_rest(&held).await;
            let found = held.finding(held.db()).await;
            assert!(matches!(&found[..], [Finding { severity: Severity::Error, .. }]), "{found:?}");
            assert!(found[0].what.contains("enqueues notify no worker"), "{found:?}");
            // Below a quarter, an enqueue notifies again.
            let mut listener = held.session().await;
            listener.batch_execute("listen jobs").await.unwrap();
            held.holder.batch_execute("rollback").await.unwrap();
            while held.usage().await > 0.2 {
                tokio::task::yield_now().await;
            }
            held.session().await.batch_execute("select jobs.enqueue('a')").await.unwrap();
            let mut notifications = std::pin::pin!(listener.notifications_stream());
            while notifications.next().await.unwrap().unwrap().payload != "default" {}
            assert_eq!(held.finding(held.db()).await, [], "it is empty again");
        }
    });
}

#[test]
fn the_doctor_names_the_sessions_that_may_hold_the_queue_of_notifications_up() {
    test(async {
        let mut held = held_up_in("postgres").await;
        // Its transaction is older than that of the session that listens.
        held.holder.batch_execute("commit").await.unwrap();
        let mut innocent = held.session().await;
        innocent.batch_execute("set application_name = 'dump'; begin; select 1").await.unwrap();
        held.holder.batch_execute("begin; select 'a secret'").await.unwrap();
        assert_eq!(held.finding(held.db()).await, []);
        held.fill(0.02).await;
        let found = held.finding(held.db()).await;
        let [Finding { severity: Severity::Warning, what, repair, .. }] = &found[..] else { panic!("{found:?}") };
        let pid = held.holder.number("select pg_backend_pid()::bigint as number").await;
        for part in [
            &*format!("process {pid} (forgetful, role tester, database postgres, idle in transaction)"),
            "its statement: ",
        ] {
            assert!(what.contains(part), "{what}");
        }
        assert!(what.contains("(dump, ") && what.find("(dump, ") < what.find("(forgetful, "), "{what}");
        assert!(!repair.contains("terminate") && repair.contains("the server's log names its process"), "{repair}");
        let (_, candidates) = repair.split_once("All candidates: ").unwrap();
        held.session().await.batch_execute(candidates).await.unwrap();
        // A role that does not see the session says so.
        let mut owner = held.session().await;
        let plain = "create role plain login; grant usage on schema jobs to plain; grant select on all tables in schema jobs to plain";
        owner.batch_execute(plain).await.unwrap();
        let as_plain = open(&held.fixture.url.replace("tester@", "plain@")).await;
        let blind = held.finding(&as_plain).await;
        let of =
            |severity| blind.iter().find(|one| one.severity == severity && one.check == "notification_queue").unwrap();
        assert!(of(Severity::Warning).what.ends_with("this role sees no session in a transaction"), "{blind:?}");
        assert_eq!(of(Severity::Skipped).repair, "grant pg_read_all_stats to plain");
        held.holder.batch_execute("commit").await.unwrap();
        while held.usage().await > 0.005 {
            tokio::task::yield_now().await;
        }
        assert_eq!(held.finding(held.db()).await, []);
    });
}

/// Nothing else sends a notification to workers.
#[test]
fn one_function_notifies_workers() {
    crate::fixture::run::<Postgres, _>(async |f: Postgres| {
        let others = "select count(*) as number from pg_proc
            where pronamespace = 'jobs'::regnamespace and prosrc like '%pg_notify%' and proname <> 'notify_workers'";
        let found: Number = diesel_async::RunQueryDsl::get_result(
            diesel::sql_query(others),
            &mut AsyncPgConnection::establish(&f.url).await.unwrap(),
        )
        .await
        .unwrap();
        assert_eq!(found.number, 0);
    });
}
