//! A server that translates its messages decides nothing differently, whether the worker's role may change the language
//! or not.

use diesel::PgConnection;
use diesel::connection::SimpleConnection as _;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::operator::{JobFilter, Objectives};
use diesel_jobs::prelude::*;
use diesel_jobs::rules::Unique;
use diesel_jobs::worker::Registry;
use diesel_jobs::{EnqueueError, JobBuilder, JobState, StorageError, job};
use support::{Db, registry};

use crate::{conflicts, stale_sessions};

/// Makes the tests' server translate its messages in this database. It has `LANGUAGE=de` in its environment.
async fn translate(db: &Db) {
    db.execute(
        "do $$ begin execute format('alter database %I set lc_messages = ''C.UTF-8''', current_database()); end $$",
    )
    .await;
    let mut conn = AsyncPgConnection::establish(db.url()).await.unwrap();
    let said = conn.batch_execute("select 1 / 0").await.unwrap_err().to_string();
    assert_eq!(
        said, "Division durch Null",
        "NOTHING CAN BE TESTED HERE: this server does not translate its messages. Either it was built without NLS, or its translations \
         are not installed (Debian has them in the server's package), or `cargo xtask` did not start it"
    );
}

/// The role may change the language.
async fn translated(mut db: Db) -> Db {
    translate(&db).await;
    db.open_as("tester").await;
    db
}

/// The worker's role may not change the language.
async fn translated_for_good(mut db: Db) -> Db {
    translate(&db).await;
    db.execute(
        "do $$ begin if to_regrole('jobs_test_ordinary') is null then create role jobs_test_ordinary login; end if;
        exception when unique_violation or duplicate_object then null; end $$;
        grant usage on schema jobs, public to jobs_test_ordinary;
        grant all on all tables in schema jobs, public to jobs_test_ordinary;
        grant all on all sequences in schema jobs, public to jobs_test_ordinary;
        alter default privileges in schema public grant all on tables to jobs_test_ordinary;
        alter default privileges in schema public grant all on sequences to jobs_test_ordinary",
    )
    .await;
    db.open_as("jobs_test_ordinary").await;
    db
}

#[job(max_attempts = 1)]
async fn harmless() -> Result<(), JobError> {
    Ok(())
}

/// Three kinds of rows that no statement can move: a number at its limit, a date, and what the trigger of `jobs.ready`
/// refuses.
async fn rows_that_cannot_be_moved_stop_no_queue(db: Db) {
    let db = translated_for_good(db).await;
    db.execute("insert into jobs.ready (kind, args, lease) values ('harmless', '{}', 2147483647)").await;
    db.execute("insert into jobs.ready (kind, args, attempt, max_attempts) values ('harmless', '{}', 32767, 32767)")
        .await;
    let id = db.enqueue(Harmless {}).await;
    db.work(registry![Harmless]).await;
    assert_eq!(db.record(id).await.state, JobState::Completed);
    assert_eq!(db.number("select count(*) as number from jobs.dead_letter").await, 2);
}

support::on_postgres! {
    rows_that_cannot_be_moved_stop_no_queue,
    the_doctor_names_a_language_that_it_cannot_change,
    a_statement_that_an_administrator_has_ended_may_succeed_later,
    an_enqueue_that_is_refused_says_what_to_do,
}

/// The repair is for the session's role, because before version 15 of PostgreSQL there is no privilege for a setting.
async fn the_doctor_names_a_language_that_it_cannot_change(db: Db) {
    let language = async |db: &Db| {
        let findings = db.database().operator.examine(Objectives::default(), None).await.unwrap();
        findings.into_iter().find(|one| one.check == "language")
    };
    assert_eq!(language(&db).await, None);
    let db = translated(db).await;
    assert_eq!(language(&db).await, None, "the role may change it");
    let mut db = translated_for_good(db).await;
    let found = language(&db).await.expect("a finding");
    assert_eq!(found.repair, "alter role jobs_test_ordinary set lc_messages = 'C'");
    assert!(found.what.contains("lc_messages is C.UTF-8"), "{found:?}");
    // Other tests use the role, too, so it is repaired for this database only.
    db.execute(
        "do $$ begin
            execute format('alter role jobs_test_ordinary in database %I set lc_messages = ''C''', current_database());
        end $$",
    )
    .await;
    db.open_as("jobs_test_ordinary").await;
    assert_eq!(language(&db).await, None);
}

/// One session lives on, and the other one has ended with the error.
async fn a_statement_that_an_administrator_has_ended_may_succeed_later(db: Db) {
    let db = translated_for_good(db).await;
    let (operator, mut other) = (&db.database().operator, db.conn().await);
    for (end, reason) in [("pg_cancel_backend", "Benutzeraufforderung"), ("pg_terminate_backend", "Administrators")] {
        other.execute("begin; lock table jobs.ready in access exclusive mode").await;
        let ended = format!(
            "select count({end}(pid)) as number from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'"
        );
        let filter = JobFilter::default();
        let (answer, ()) = tokio::join!(operator.list_all(&filter, 10), db.await_number(1, &ended));
        other.execute("rollback").await;
        let Err(problem) = answer else { panic!("{end} has ended no statement") };
        assert!(matches!(problem, StorageError::Unavailable(_)) && problem.to_string().contains(reason), "{problem:?}");
    }
}

/// The errors of an application's own connection carry their advice.
async fn an_enqueue_that_is_refused_says_what_to_do(db: Db) {
    let db = translated_for_good(db).await;
    let as_role = db.url().replacen("tester@", "jobs_test_ordinary@", 1);
    let refused = async || {
        let mut conn = AsyncPgConnection::establish(&as_role).await.unwrap();
        let mut sync = <PgConnection as diesel::Connection>::establish(&as_role).unwrap();
        let unique = Harmless {}.unique(Unique::new());
        [Harmless {}.enqueue(&mut conn).await, Harmless {}.enqueue(&mut sync), unique.enqueue(&mut conn).await]
            .map(Result::unwrap_err)
    };
    // A unique job is inserted by a function, which the role may not execute here.
    for privilege in ["insert on jobs.ready", "usage on schema jobs"] {
        db.execute(&format!("revoke {privilege} from jobs_test_ordinary")).await;
        for error in refused().await {
            let text = error.to_string();
            assert!(
                text.contains("keine Berechtigung") && text.contains("`worker migrate roles` prints"),
                "{privilege}: {text}"
            );
        }
    }
    db.execute("drop schema jobs cascade").await;
    for error in refused().await {
        let text = error.to_string();
        assert!(matches!(error, EnqueueError::Schema(_)) && text.contains("existiert nicht"), "{text}");
    }
}

#[job(max_attempts = 1)]
async fn swallowing_async(conn: &mut AsyncPgConnection) -> Result<(), JobError> {
    let _ = conn.batch_execute("select 1 / 0").await;
    Ok(())
}

#[job(max_attempts = 1)]
fn swallowing_blocking(conn: &mut PgConnection) -> Result<(), JobError> {
    let _ = conn.batch_execute("select 1 / 0");
    Ok(())
}

async fn an_aborted_transaction_is_explained(db: Db, registry: Registry, job: JobBuilder) {
    let db = translated_for_good(db).await;
    let id = db.enqueue(job).await;
    db.work(registry).await;
    let failures = db.failures(id).await;
    assert!(failures[0].message.starts_with("the handler continued after a statement failed"), "{failures:?}");
}

/// Runs these tests of conflicts with each type of connection.
macro_rules! conflicts {
    ($($module:ident, $kind:ident, $db:ident: $($claim:ident),+;)+) => {$(
        mod $module {
            $(#[test] fn $claim() {
                support::run(support::Db::postgres(), async |db| super::conflicts::$claim(super::$db(db).await, super::conflicts::$kind()).await);
            })+
        }
    )+};
}

conflicts! {
    on_async_pg_connection, async_kind, translated:
        a_deadlock_costs_no_attempt, a_lock_that_is_not_available_costs_no_attempt;
    on_pg_connection, blocking_kind, translated:
        a_deadlock_costs_no_attempt, a_lock_that_is_not_available_costs_no_attempt;
    of_an_ordinary_role_on_async_pg_connection, async_kind, translated_for_good:
        a_deadlock_costs_no_attempt, a_lock_that_is_not_available_costs_no_attempt, a_serialization_failure_at_the_commit_is_run_again;
    of_an_ordinary_role_on_pg_connection, blocking_kind, translated_for_good:
        a_deadlock_costs_no_attempt, a_lock_that_is_not_available_costs_no_attempt, a_serialization_failure_at_the_commit_is_run_again;
}

/// Runs these tests of stale sessions with each type of connection, as a role that may not change the language.
macro_rules! stale {
    ($($module:ident, $kind:ident: $($claim:ident),+;)+) => {$(
        mod $module {
            $(#[test] fn $claim() {
                support::run(support::Db::postgres(), async |db| {
                    let kind = super::stale_sessions::$kind().of("jobs_test_ordinary");
                    super::stale_sessions::$claim(super::translated_for_good(db).await, kind).await
                });
            })+
        }
    )+};
}

stale! {
    stale_on_async_pg_connection, async_kind:
        a_plan_whose_result_type_changed_costs_no_attempt, a_type_that_was_made_anew_costs_no_attempt, settings_that_were_altered_cost_no_attempt;
    stale_on_pg_connection, plain_kind:
        a_plan_whose_result_type_changed_costs_no_attempt, a_type_that_was_made_anew_costs_no_attempt, settings_that_were_altered_cost_no_attempt;
}

#[test]
fn an_aborted_transaction_is_explained_on_async_pg_connection() {
    support::run(Db::postgres(), async |db| {
        an_aborted_transaction_is_explained(db, registry![SwallowingAsync], SwallowingAsync {}.into()).await;
    });
}

#[test]
fn an_aborted_transaction_is_explained_on_pg_connection() {
    support::run(Db::postgres(), async |db| {
        an_aborted_transaction_is_explained(db, registry![SwallowingBlocking], SwallowingBlocking {}.into()).await;
    });
}
