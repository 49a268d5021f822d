//! `doctor` on both databases: a fault is planted, named, repaired as the finding says, and gone.

use std::time::Duration;

use diesel_jobs_core::storage::{Finding, Objectives, Severity, WorkerInfo};
use diesel_jobs_core::{JobId, Keep, Rate, Sequence, Transition, WorkerId};
use diesel_jobs_storage::Database;

use crate::bench::{
    HOUR, MINUTE, POLICY, StorageExt as _, claimed, discard, enqueue, enqueue_all, failure, finish, info, job, later,
    mortal, rescue, with, worker,
};
use crate::fixture::Fixture;

pub(crate) async fn found(db: &Database, check: &str) -> Vec<Finding> {
    let findings = db.operator.examine(Objectives { oldest_due: MINUTE, ..Objectives::default() }, None).await.unwrap();
    let of_check: Vec<Finding> = findings.into_iter().filter(|one| one.check == check).collect();
    assert!(of_check.iter().all(|one| one.severity != Severity::Skipped), "{of_check:?}");
    of_check
}

/// The finding of this check, of which there must be one.
pub(crate) async fn one(db: &Database, check: &str) -> Finding {
    let mut found = found(db, check).await;
    assert_eq!(found.len(), 1, "{check}: {found:?}");
    found.remove(0)
}

pub(crate) async fn none(db: &Database, check: &str) {
    assert_eq!(found(db, check).await, [], "{check}");
}

/// Runs the repair of the only finding of this check, which is SQL. Then it must be gone.
pub(crate) async fn repair<F: Fixture>(f: &F, check: &str) {
    let Finding { repair, .. } = one(f.database(), check).await;
    f.client().await.execute(&repair).await.unwrap_or_else(|error| panic!("{repair}: {error}"));
    none(f.database(), check).await;
}

async fn sql<F: Fixture>(f: &F, sql: &str) {
    f.client().await.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub(crate) async fn a_fresh_database_has_no_error<F: Fixture>(f: F) {
    worker(f.database()).await;
    enqueue(&f, job()).await;
    let findings = f.database().operator.examine(Objectives::default(), None).await.unwrap();
    // Settings and transactions of the server belong to all tests.
    let others = ["old_transaction", "setting", "connections"];
    let of_ours: Vec<&Finding> = findings.iter().filter(|one| !others.contains(&one.check)).collect();
    assert!(of_ours.is_empty(), "{of_ours:#?}");
}

pub(crate) async fn a_missing_schema_is_the_only_finding<F: Fixture>(f: F) {
    let db = f.database();
    db.migrator.down(diesel_jobs_storage::migrations::LiveJobs::Keep).await.unwrap();
    let findings = db.operator.examine(Objectives::default(), None).await.unwrap();
    assert!(matches!(&findings[..], [Finding { check: "schema", severity: Severity::Error, .. }]), "{findings:?}");
    db.migrator.up().await.unwrap();
    none(db, "schema").await;
}

pub(crate) async fn a_dropped_index_is_created_again<F: Fixture>(f: F) {
    let (index, schema) =
        if F::TABLES.contains(&"ready") { ("operation_open", "jobs.") } else { ("operation_open", "jobs_") };
    sql(&f, &format!("drop index {schema}{index}")).await;
    repair(&f, "drift").await;
    sql(&f, &format!("create index extra on {} (id)", F::table("audit"))).await;
    let extra = one(f.database(), "drift").await;
    assert_eq!(extra.severity, Severity::Warning);
    repair(&f, "drift").await;
}

pub(crate) async fn jobs_that_no_worker_can_run_are_reported<F: Fixture>(f: F) {
    let db = f.database();
    enqueue(&f, with(|job| job.queue = "mail".into())).await;
    let alone = one(db, "no_worker").await;
    assert!(alone.what.ends_with("no worker is alive. Queues: `mail`"), "{alone:?}");
    assert_eq!((alone.severity, &*alone.repair), (Severity::Warning, "worker run"));
    let other = worker(db).await;
    assert!(one(db, "unserved_queue").await.repair.contains("--queues mail"));
    none(db, "no_worker").await;
    db.storage.deregister(other).await.unwrap();
    let id = WorkerId::generate();
    let serves = |kinds: &[&str]| WorkerInfo {
        queues: vec!["mail".to_owned()],
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        ..info(id, HOUR)
    };
    db.storage.register(&serves(&["b"])).await.unwrap();
    none(db, "unserved_queue").await;
    assert!(one(db, "unknown_kind").await.what.contains("kind `a`"));
    db.storage.deregister(id).await.unwrap();
    db.storage.register(&serves(&["a"])).await.unwrap();
    none(db, "unknown_kind").await;
}

pub(crate) async fn late_jobs_crashes_and_dead_leases_are_named<F: Fixture>(f: F) {
    let db = f.database();
    let me = worker(db).await;
    let waiting = if F::TABLES.contains(&"ready") { F::table("ready") } else { F::table("job") };
    let late = enqueue(&f, job()).await;
    none(db, "oldest_due").await;
    sql(&f, &F::passed(HOUR)).await;
    // Its heartbeat is an hour old, too.
    db.storage.deregister(me).await.unwrap();
    let me = worker(db).await;
    assert!(one(db, "oldest_due").await.what.contains("queue `default`"));
    let late = claimed_of(db, me, late).await;
    none(db, "oldest_due").await;
    finish(db, &late, Transition::Complete(Keep::Nothing)).await;

    let crashed = enqueue(&f, later(HOUR)).await;
    sql(&f, &format!("update {waiting} set crashes = 1 where id = {crashed}")).await;
    assert!(one(db, "crash_loop").await.repair.contains(&format!("worker cancel {crashed}")));
    db.operator.cancel(crashed).await.unwrap();
    none(db, "crash_loop").await;

    claimed(&f, mortal(db).await, job()).await;
    sql(&f, &F::passed(MINUTE)).await;
    assert_eq!(one(db, "dead_lease").await.repair, "worker run");
    rescue(db, POLICY).await;
    none(db, "dead_lease").await;
}

async fn claimed_of(db: &Database, worker: WorkerId, job: JobId) -> diesel_jobs_core::ClaimedJob {
    let mut jobs = crate::bench::claim(db, worker, 1).await;
    assert_eq!(crate::bench::ids(&jobs), [job]);
    jobs.remove(0)
}

pub(crate) async fn rows_that_should_be_gone_are_named<F: Fixture>(f: F) {
    let db = f.database();
    let me = worker(db).await;
    let ended = claimed(&f, me, job()).await;
    finish(db, &ended, Transition::Discard { failure: failure("no"), keep: Keep::For(Duration::ZERO) }).await;
    none(db, "pruner_behind").await;
    sql(&f, &F::passed(2 * HOUR)).await;
    assert_eq!(one(db, "pruner_behind").await.repair, "worker run");
    while db.storage.prune(100).await.unwrap() > 0 {}
    none(db, "pruner_behind").await;

    let me = worker(db).await;
    let deleted = claimed(&f, me, job()).await;
    finish(db, &deleted, discard()).await;
    let ended_table = if F::TABLES.contains(&"ready") { F::table("finished") } else { F::table("job") };
    sql(&f, &format!("delete from {ended_table} where id = {}", deleted.lease.job)).await;
    repair(&f, "orphan").await;
    let key = F::table("unique_key");
    sql(&f, &format!("insert into {key} (name, key, job_id, started) values ('a', '[1]', {}, '0')", deleted.lease.job))
        .await;
    repair(&f, "orphan").await;
}

pub(crate) async fn schedules_that_do_not_tick_are_named<F: Fixture>(f: F) {
    let db = f.database();
    let mut lost = crate::scheduling::declared("lost");
    lost.timezone = "Mars/Base".into();
    db.storage.schedules(&[lost]).await.unwrap();
    repair(&f, "schedule").await;
    let mut minutely = crate::scheduling::declared("minutely");
    minutely.expression = "0 * * * * *".into();
    db.storage.schedules(&[minutely]).await.unwrap();
    none(db, "overdue_schedule").await;
    let table = F::table("schedule");
    sql(&f, &format!("update {table} set last_tick = {}", F::EPOCH)).await;
    assert_eq!(one(db, "overdue_schedule").await.repair, "worker run");
    db.operator.forget_missed_ticks("ann").await.unwrap();
    none(db, "overdue_schedule").await;
}

pub(crate) async fn what_a_clock_that_went_back_has_left_is_named_and_repaired<F: Fixture>(f: F) {
    let db = f.database();
    let mut minutely = crate::scheduling::declared("minutely's");
    minutely.expression = "0 * * * * *".into();
    db.storage.schedules(&[minutely]).await.unwrap();
    none(db, "future_tick").await;
    sql(&f, &format!("update {} set last_tick = {}", F::table("schedule"), F::YEAR_AHEAD)).await;
    repair(&f, "future_tick").await;

    worker(db).await;
    none(db, "future_heartbeat").await;
    sql(&f, &format!("update {} set heartbeat_at = {}", F::table("worker"), F::YEAR_AHEAD)).await;
    repair(&f, "future_heartbeat").await;
}

pub(crate) async fn the_doctor_says_of_rates_and_sequences_what_can_be_done<F: Fixture>(f: F) {
    let db = f.database();
    let rate = || job().rule(Rate::new("api", 6, HOUR).burst(3).key("x")).unwrap();
    let ordered = || job().rule(Sequence::new("orders").key(7)).unwrap();
    let rated = enqueue_all(&f, vec![rate(), rate(), rate(), rate()]).await;
    let ordered = enqueue_all(&f, vec![ordered(), ordered()]).await;
    assert_eq!(
        db.storage.admit(false).await.unwrap().admitted,
        4,
        "three that the rate lets start, and the first one of the sequence"
    );
    let late = [rated[3], ordered[1]];
    let (table, set) = match F::TABLES.contains(&"ready") {
        true => (F::table("held"), "run_at = now() - interval '1 hour'"),
        false => (F::table("job"), "due_at = due_at - 3600000000"),
    };
    sql(&f, &format!("update {table} set {set} where id in ({}, {})", late[0], late[1])).await;
    let found = found(db, "oldest_held").await;
    let of = |part: &str| found.iter().find(|one| one.what.contains(part)).unwrap_or_else(|| panic!("{found:?}"));
    let rate = of(r#"Z for a token of the rate `api` with the key `["x"]`, longer"#);
    assert!(rate.repair.contains(&format!("the next token comes: worker why {}", late[0])), "{rate:?}");
    let sequence = of("Z for its turn in the sequence `orders` with the key `[7]`, longer");
    assert_eq!(sequence.repair, format!("see which job is before it: worker why {}", late[1]));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|one| !one.repair.contains("limits set")), "no limit is to be set: {found:?}");
}
