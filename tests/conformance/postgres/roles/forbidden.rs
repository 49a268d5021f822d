//! What must be refused, with SQLSTATE 42501 and no other error.

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::storage::{JobFilter, StorageResult, WorkerInfo};
use diesel_jobs_core::{Finish, JobId, Lease, StorageError, WorkerId};
use diesel_jobs_storage::Database;
use diesel_jobs_storage::migrations::LiveJobs;

use crate::bench::*;

/// Changes of the schema, and statements that would give a role the privileges for that.
pub(super) const TO_BOTH: &[&str] = &[
    "truncate jobs.ready",
    "truncate jobs.running, jobs.finished",
    "truncate jobs.payload",
    "drop table jobs.ready",
    "drop table jobs.schema_migration",
    "drop view jobs.job",
    "drop function jobs.wake(text)",
    "drop sequence jobs.job_id",
    "drop trigger set_payload_aside on jobs.ready",
    "drop schema jobs cascade",
    "create schema jobs_bench",
    "create table jobs.mine (id bigint)",
    "create view jobs.mine as select 1",
    "create function jobs.mine() returns int language sql as 'select 1'",
    "create or replace function jobs.wake(queue text) returns void language sql as 'select'",
    "create index on jobs.ready (id)",
    "create trigger mine before insert on jobs.ready for each row execute function suppress_redundant_updates_trigger()",
    "alter table jobs.ready add column mine text",
    "alter table jobs.ready disable trigger all",
    "alter table jobs.ready owner to current_user",
    "alter table jobs.finished set unlogged",
    "alter domain jobs.smallint_from_1 drop constraint smallint_from_1_check",
    "alter function jobs.set_payload_aside() security invoker",
    "alter schema jobs rename to mine",
    "alter view jobs.job set schema public",
    "comment on schema jobs is 'mine'",
    "create role mine",
    "set role tester",
    "insert into jobs.schema_migration (version, name) values (2, 'mine')",
    "update jobs.schema_migration set version = 2",
    "delete from jobs.schema_migration",
    "select setval('jobs.job_id', 1)",
    "insert into jobs.installation (environment) values ('mine')",
    "update jobs.installation set environment = 'mine'",
    "delete from jobs.installation",
    "insert into jobs.payload (job_id, args) values (1, '{}')",
    "update jobs.payload set args = '{}'",
    // A temporary table with a trigger that would run with the owner's privileges.
    "create temp table lure (id bigint, kind text, args json);
     create trigger lure before insert on lure for each row execute function jobs.set_payload_aside()",
];

/// Reading, deleting, changing and running other programs' jobs, and inserting rows of jobs that never ran.
pub(super) const TO_ENQUEUERS: &[&str] = &[
    "insert into jobs.queue (name, paused) values ('default', true)",
    "update jobs.queue set paused = true",
    "delete from jobs.queue",
    "insert into jobs.audit (actor, action, target) values ('a', 'b', 'c')",
    "table jobs.audit",
    "table jobs.job",
    "select args from jobs.job",
    "select tags from jobs.job",
    "select last_error from jobs.job",
    "select args from jobs.ready",
    "select kind from jobs.ready",
    "select run_at from jobs.ready",
    "select tags from jobs.ready",
    "select ready from jobs.ready",
    "table jobs.ready",
    "table jobs.running",
    "table jobs.finished",
    "table jobs.payload",
    "table jobs.installation",
    "update jobs.installation set frozen_at = null",
    "select job_id from jobs.payload",
    "table jobs.job_error",
    "table jobs.output",
    "select output from jobs.job",
    "table jobs.worker",
    "select id from jobs.worker",
    "table jobs.queue",
    "table jobs.schedule",
    "table jobs.schema_migration",
    "select last_value from jobs.job_id",
    "select id from jobs.ready for update",
    "delete from jobs.ready",
    "delete from jobs.ready where id = 1",
    "delete from jobs.running",
    "delete from jobs.finished",
    "delete from jobs.payload",
    "delete from jobs.job_error",
    "delete from jobs.output",
    "delete from jobs.worker",
    "delete from jobs.schedule",
    "lock table jobs.ready",
    "update jobs.ready set priority = 1",
    "update jobs.ready set args = '{}' where id = 1",
    "update jobs.worker set idle = true",
    "update jobs.schedule set kind = 'mine'",
    "insert into jobs.ready (id, kind, args) values (1, 'a', '{}')",
    "insert into jobs.ready (kind, args, lease) values ('a', '{}', 1)",
    "insert into jobs.ready (kind, args, attempt) values ('a', '{}', 1)",
    "insert into jobs.ready (kind, args, crashes) values ('a', '{}', 1)",
    "insert into jobs.ready (kind, args, enqueued_at) values ('a', '{}', now())",
    "insert into jobs.ready (kind, args) values ('a', '{}') returning args",
    "insert into jobs.ready (kind, args) values ('a', '{}') on conflict do nothing returning kind",
    "insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue)
     values (1, now(), now(), 1, 0, 1, 1, 0, gen_random_uuid(), 'a', 'q')",
    "insert into jobs.finished (id, run_at, enqueued_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue)
     values (1, now(), now(), 1, 1, 0, 1, 1, 0, 'a', 'q')",
    "insert into jobs.job_error (job_id, attempt, kind, message) values (1, 1, 'error', '')",
    "insert into jobs.worker (id, host, pid, queues, lease) values (gen_random_uuid(), '', 1, '{}', '1 s')",
    "insert into jobs.schedule (name, kind, expression, timezone, catch_up) values ('a', 'a', '* * * * *', 'UTC', 'skip')",
];

/// Changes of a job in place, which no worker makes.
pub(super) const TO_WORKERS: &[&str] = &[
    "update jobs.audit set actor = 'somebody else'",
    "delete from jobs.audit",
    "delete from jobs.operation",
    "update jobs.ready set args = '{}'",
    "update jobs.running set worker = gen_random_uuid()",
    "update jobs.finished set state = 1",
    "update jobs.job_error set message = ''",
    "select last_value from jobs.job_id",
];

/// Tries each statement, which must be refused. A statement that is not refused is rolled back, so that the next ones
/// still have rows.
pub(super) async fn statements(conn: &mut AsyncPgConnection, statements: &[&str]) {
    for statement in statements {
        let tried = format!(
            "do $do$ begin execute $sql${statement}$sql$; raise exception 'it was carried out';
             exception when insufficient_privilege then null; end $do$"
        );
        conn.batch_execute(&tried).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Tries every operation of workers and operators, which must be refused.
pub(super) async fn operations(db: &Database) {
    let (storage, operator) = (&db.storage, &db.operator);
    let id = WorkerId::generate();
    let info = WorkerInfo { queues: vec!["default".into()], ..WorkerInfo::new(id, HOUR) };
    let (lease, flags) = (Lease { job: JobId(1), number: 1, worker: id }, JobFlags::default());
    let wanted = wants(id, &[("default", 1)]);
    refused("check_schema", storage.check_schema().await);
    refused("register", storage.register(&info).await);
    refused("deregister", storage.deregister(id).await);
    refused("heartbeat", storage.open_heartbeat(id).await.unwrap().beat(false, HOUR).await);
    refused("claim", storage.claim(&wanted).await);
    refused("claim_quarantined", storage.claim(&wanted.for_quarantined()).await);
    refused("next_due", storage.next_due(&wanted, ANY_TIME).await);
    refused("finish", storage.finish_all(&[Finish { lease, flags, transition: discard() }]).await);
    refused("complete", storage.finish_all(&[Finish { lease, flags, transition: DONE }]).await);
    refused("leases", storage.leases(id, None).await);
    refused("rescue", storage.rescue(POLICY).await);
    refused("declare_schedules", storage.schedules(&[crate::scheduling::declared("nightly")]).await);
    refused("declare_discard_rules", storage.declare_discard_rules(&["a".into()], &[crate::discarding::rule()]).await);
    refused("schedules", storage.schedules(&[]).await);
    refused("prune", storage.prune(1).await);
    refused("set_idle", storage.set_idle(id, true).await);
    refused("list", operator.list_all(&JobFilter::default(), 1).await);
    refused("show", operator.show(JobId(1)).await);
    refused("retry", operator.retry(JobId(1)).await);
    refused("cancel", operator.cancel(JobId(1)).await);
    refused("workers", operator.workers().await);
    refused("migrate up", db.migrator.up().await);
    refused("migrate down", db.migrator.down(LiveJobs::Keep).await);
}

fn refused<T>(operation: &str, answer: StorageResult<T>) {
    match answer {
        Err(error @ StorageError::Refused(_)) => {
            assert!(super::is_denied(&error.to_string()), "{operation}: {error}")
        }
        Err(error) => panic!("{operation}: {error}"),
        Ok(_) => panic!("{operation} was carried out"),
    }
}
