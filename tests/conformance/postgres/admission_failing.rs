//! What fails in a pass of admission: at one key, or for one job. It stops no other key and no other job, and the
//! doctor sees it.

use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::WaitEnd;
use diesel_jobs_core::{JobId, JobState, Limit, NewJob, OnFull, Rate, Retention};
use diesel_jobs_storage::Database;

use super::Postgres;
use crate::bench::*;
use crate::examining::{found, none, one};
use crate::fixture::{Fixture, Port as _, run};
use crate::limiting::{admit, check, limited};

use JobState::{Available, Discarded, Held, Scheduled};

/// A job of kind `a` with a rate of six in an hour.
fn rated(key: &str) -> NewJob {
    job().rule(Rate::new("api", 6, HOUR).burst(1).key(key)).unwrap()
}

/// A job of this kind, of which one may run at once.
pub(super) fn alone(kind: &'static str, limit: &str) -> NewJob {
    NewJob::raw(kind, "{}").rule(Limit::new(limit, 1)).unwrap()
}

/// A trigger that raises this error for rows that meet the condition.
fn raises(when: &str, on: &str, code: &str) -> String {
    format!(
        "create or replace function refuse() returns trigger language plpgsql as $$ begin
             if new.{when} then raise exception 'not now' using errcode = '{code}'; end if; return new; end $$;
         create trigger refuse before {on} for each row execute function refuse()"
    )
}

pub(super) async fn execute(f: &Postgres, sql: &str) {
    f.client().await.execute(sql).await.unwrap();
}

/// Lets the minute pass after which admission tries again at the latest.
async fn wait_a_minute(f: &Postgres) {
    execute(f, &Postgres::passed(Duration::from_secs(61))).await;
}

/// Moves the next try of all that has failed by most of this minute, so that it does not matter how long a test takes.
pub(super) async fn put_off(f: &Postgres) {
    execute(
        f,
        "update jobs.admission_failure set next_at = next_at + interval '50 seconds';
         update jobs.held set run_at = run_at + interval '50 seconds' where later and id in (select job_id from jobs.admission_failure)",
    )
    .await;
}

pub(super) async fn states(db: &Database, ids: &[JobId]) -> Vec<JobState> {
    let mut states = Vec::new();
    for id in ids {
        states.push(state(db, *id).await);
    }
    states
}

#[test]
fn a_key_at_which_a_pass_fails_stops_no_other() {
    let faults = [
        // Nobody can store such a rate by an enqueue.
        (
            r#"update jobs.held set rules = replace(rules::text, '"limit":6', '"limit":0')::json where limit_key like '%bad%'"#,
            r#"update jobs.held set rules = replace(rules::text, '"limit":0', '"limit":6')::json where limit_key like '%bad%'"#,
        ),
        (
            r#"update jobs.held set rules = replace(rules::text, '3600000000', '9000000000000000000')::json where limit_key like '%bad%'"#,
            r#"update jobs.held set rules = replace(rules::text, '9000000000000000000', '3600000000')::json where limit_key like '%bad%'"#,
        ),
        (
            r#"update jobs.held set rules = replace(rules::text, '3600000000', '"soon"')::json where limit_key like '%bad%'"#,
            r#"update jobs.held set rules = replace(rules::text, '"soon"', '3600000000')::json where limit_key like '%bad%'"#,
        ),
        (
            "alter table jobs.rate add constraint no check (limit_key not like '%bad%')",
            "alter table jobs.rate drop constraint no",
        ),
        (
            // An instant beyond the year 9999, as by a clock that jumps.
            "alter table jobs.rate alter column full_at type timestamptz; alter table jobs.rate add constraint no check (limit_key not like '%bad%' or full_at < 'epoch')",
            "alter table jobs.rate drop constraint no",
        ),
    ];
    for (fault, repair) in faults {
        run::<Postgres, _>(async |f: Postgres| {
            let db = f.database();
            execute(&f, Postgres::UNHURRIED).await;
            let bad = enqueue(&f, rated("bad")).await;
            execute(&f, fault).await;
            let others = enqueue_all(&f, vec![rated("x"), limited("y")]).await;
            assert_eq!(admit(db).await, 2, "{fault}");
            put_off(&f).await;
            assert_eq!(states(db, &others).await, [Available; 2]);
            let finding = one(db, "admission").await;
            assert!(finding.what.contains(r#"the limit `api` with the key `["bad"]` has failed once"#), "{finding:?}");
            assert!(finding.repair.contains(&format!("worker cancel {bad}")), "{finding:?}");
            // It is not tried in each pass, and others come and go meanwhile.
            let other = enqueue(&f, limited("z")).await;
            enqueue(&f, rated("bad")).await;
            let pass = db.storage.admit(true).await.unwrap();
            assert_eq!((pass.admitted, pass.failures), (1, Some(1)));
            assert_eq!(state(db, other).await, Available);
            assert!(pass.next_token.is_some_and(|time| !time.is_zero()), "no pass follows at once: {pass:?}");
            wait_a_minute(&f).await;
            assert_eq!(admit(db).await, 0);
            assert!(one(db, "admission").await.what.contains("failed 2 times"));
            execute(&f, repair).await;
            wait_a_minute(&f).await;
            assert_eq!(admit(db).await, 1, "{repair}");
            assert_eq!(state(db, bad).await, Available);
            none(db, "admission").await;
            check_nothing_left_out(db).await;
        });
    }
}

async fn check_nothing_left_out(db: &Database) {
    assert_eq!(db.storage.admit(true).await.unwrap().failures, Some(0));
}

#[test]
fn an_error_that_may_pass_stops_one_job() {
    // Of a state, resources, a conflict, a right, the server, the system, syntax.
    for code in ["55000", "53100", "40001", "40P01", "42501", "57P05", "58030", "42601"] {
        run::<Postgres, _>(async |f: Postgres| {
            let db = f.database();
            execute(&f, Postgres::UNHURRIED).await;
            execute(&f, &raises("kind = 'b'", "insert on jobs.ready", code)).await;
            let ids = enqueue_all(
                &f,
                vec![alone("b", "own"), alone("a", "other"), alone("b", "both"), alone("a", "both"), limited("x")],
            )
            .await;
            assert_eq!(admit(db).await, 2, "{code}: the other keys go on");
            put_off(&f).await;
            assert_eq!(admit(db).await, 1, "{code}: the rest of the key goes on");
            assert_eq!(states(db, &ids).await, [Scheduled, Available, Scheduled, Available, Available], "{code}");
            let findings = found(db, "admission").await;
            assert_eq!(findings.len(), 2, "{findings:?}");
            assert!(findings[0].what.contains(&format!("not now ({code})")), "{findings:?}");
            // It is tried again, and fails again, in a subtransaction of its own: the pass keeps the floors of the
            // other keys.
            wait_a_minute(&f).await;
            execute(&f, "insert into jobs.admission_floor (number, floors) values (1, '[]')").await;
            assert_eq!(db.storage.admit(true).await.unwrap().admitted, 0, "{code}");
            put_off(&f).await;
            assert_eq!(states(db, &ids[..1]).await, [Scheduled], "{code}");
            assert_eq!(
                f.client().await.number("select count(*) as number from jobs.admission_floor").await,
                1,
                "{code}"
            );
            check(&f).await;
            execute(&f, "drop trigger refuse on jobs.ready").await;
            wait_a_minute(&f).await;
            assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1, "{code}: the permit of `both` is taken");
            assert_eq!(states(db, &ids).await, [Available, Available, Held, Available, Available], "{code}");
            check(&f).await;
            check_nothing_left_out(db).await;
            none(db, "admission").await;
        });
    }
}

#[test]
fn triggers_of_our_own_tables_stop_one_key() {
    let bad = "limit_key like '%bad%'";
    for on in ["insert on jobs.permit", "insert or update on jobs.fair_turn"] {
        run::<Postgres, _>(async |f: Postgres| {
            let db = f.database();
            execute(&f, Postgres::UNHURRIED).await;
            let fair = |key: &str| job().rule(Limit::new("fair", 2).key(key).fair_by("t")).unwrap();
            execute(&f, &raises(bad, on, "55000")).await;
            let ids = enqueue_all(&f, vec![fair("bad"), fair("good"), limited("x")]).await;
            assert_eq!(admit(db).await, 2, "{on}");
            assert_eq!(states(db, &ids[1..]).await, [Available; 2], "{on}");
            check(&f).await;
        });
    }
}

#[test]
fn floors_that_cannot_be_read_stop_nothing() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        execute(&f, Postgres::UNHURRIED).await;
        execute(&f, r#"insert into jobs.admission_floor (number, floors) values (7, '{"name":1}')"#).await;
        enqueue_all(&f, vec![limited("x"); 3]).await;
        assert_eq!(admit(db).await, 2);
        assert_eq!(f.client().await.number("select count(*) as number from jobs.admission_floor").await, 0);
        check(&f).await;
    });
}

#[test]
fn a_row_that_another_session_has_locked_stops_one_key() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        execute(&f, Postgres::UNHURRIED).await;
        enqueue_all(&f, vec![rated("bad"), rated("x")]).await;
        assert_eq!(admit(db).await, 2);
        let waiting = enqueue(&f, rated("bad")).await;
        let mut other = AsyncPgConnection::establish(&f.url).await.unwrap();
        other.batch_execute("begin; select from jobs.rate where limit_key like '%bad%' for update").await.unwrap();
        enqueue_all(&f, vec![limited("y"), limited("z")]).await;
        assert_eq!(admit(db).await, 2);
        assert!(one(db, "admission").await.what.contains("lock timeout"));
        other.batch_execute("rollback").await.unwrap();
        wait_a_minute(&f).await;
        execute(&f, &Postgres::passed(HOUR)).await;
        assert_eq!(admit(db).await, 1);
        assert_eq!(state(db, waiting).await, Available);
        none(db, "admission").await;
    });
}

#[test]
fn a_pass_that_is_cancelled_or_refused_at_its_commit_is_followed_by_a_careful_one() {
    let deferred = "create function refuse() returns trigger language plpgsql as $$ begin
             if new.kind = 'b' then raise exception 'not now' using errcode = '55000'; end if; return null; end $$;
         create constraint trigger refuse after insert on jobs.ready deferrable initially deferred for each row execute function refuse()";
    // No handler of an exception catches this code, wherever it comes from: it is that of a statement that took too
    // long.
    for fault in [deferred.to_owned(), raises("kind = 'b'", "insert on jobs.ready", "57014")] {
        run::<Postgres, _>(async |f: Postgres| {
            let db = f.database();
            execute(&f, Postgres::UNHURRIED).await;
            execute(&f, &fault).await;
            let ids = enqueue_all(&f, vec![alone("b", "bad"), alone("a", "good"), limited("x")]).await;
            assert!(db.storage.admit(false).await.is_err());
            let mut admitted = 0;
            for _ in 0..3 {
                // After a key at which it was cancelled, a pass ends early.
                admitted += admit(db).await;
                put_off(&f).await;
            }
            assert_eq!(admitted, 2, "{fault}");
            assert_eq!(states(db, &ids[1..]).await, [Available; 2], "{fault}");
            enqueue(&f, limited("y")).await;
            assert_eq!(admit(db).await, 1, "{fault}: the others do not notice it any more");
            assert_eq!(found(db, "admission").await.len(), 1);
            check(&f).await;
        });
    }
}

#[test]
fn a_key_that_is_left_out_ends_no_job_of_another_one() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        execute(&f, Postgres::UNHURRIED).await;
        let strict =
            |key: &str| job().rule(Rate::new("api", 6, HOUR).burst(1).key(key).on_full(OnFull::Discard)).unwrap();
        enqueue(&f, strict("bad")).await;
        execute(&f, r#"update jobs.held set rules = replace(rules::text, '"limit":6', '"limit":0')::json"#).await;
        let ids = enqueue_all(&f, vec![strict("x"); 2]).await;
        assert_eq!(admit(db).await, 1);
        put_off(&f).await;
        db.storage.end_waiting(WaitEnd::LimitFull, Retention::default()).await.unwrap();
        assert_eq!(states(db, &ids).await, [Available, Discarded]);
    });
}
