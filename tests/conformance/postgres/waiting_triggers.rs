//! Triggers of the application that wait for a lock while admission makes jobs available. They stop no other key.

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::{JobState, Limit, NewJob, Rate, RunAt};
use diesel_jobs_storage::Database;

use super::Postgres;
use super::admission_failing::{alone, execute, put_off, states};
use crate::bench::*;
use crate::examining::none;
use crate::fixture::{Fixture, Port as _, run};
use crate::limiting::limited;

use JobState::{Available, Scheduled};

/// What waits for the row of `gate`.
const GATE: &str = "create table gate (); insert into gate default values;
    create function enter() returns trigger language plpgsql as $$ begin perform from gate for update; return new; end $$;";
/// A pass waits 200 ms for all jobs together, and then for at most this many alone: for 200 ms, each time for 20 ms.
const MOST_WAITS: i64 = 11;
/// The most passes that a test makes. Each of them has tried a job or a key that was not tried before.
const ENOUGH: usize = 40;

/// Waits before a job of the kind `b` becomes available.
const AT_START: &str =
    "create trigger enter before insert on jobs.ready for each row when (new.kind = 'b') execute function enter()";

/// Makes the trigger wait for a row that is locked until this session rolls back.
async fn closes_gate(f: &Postgres, trigger: &str) -> AsyncPgConnection {
    execute(f, GATE).await;
    execute(f, trigger).await;
    let mut session = AsyncPgConnection::establish(&f.url).await.unwrap();
    session.batch_execute("begin; select from gate for update").await.unwrap();
    session
}

/// Makes a pass, and checks that it did not wait for more jobs than a pass may wait for. All of them are noted, once.
async fn pass(f: &Postgres, sweeps: bool) {
    let noted = "select coalesce(sum(failures), 0)::bigint as number from jobs.admission_failure where job_id >= 0";
    let before = f.client().await.number(noted).await;
    assert!(!f.database().storage.admit(sweeps).await.unwrap().is_busy);
    let waits = f.client().await.number(noted).await - before;
    assert!(waits <= MOST_WAITS, "it has waited for {waits} jobs");
    let others = "select count(*) as number from jobs.admission_failure where message not like '%(55P03)'";
    assert_eq!(f.client().await.number(others).await, 0, "nothing failed for another reason");
}

/// Makes passes until nothing is left to do.
async fn admit_all(db: &Database) {
    for _ in 0..ENOUGH {
        let pass = db.storage.admit(true).await.unwrap();
        if !pass.more && !pass.sweep_again {
            return;
        }
    }
    panic!("passes do not end");
}

#[test]
fn jobs_whose_start_waits_for_a_lock_stop_no_other_key() {
    let gated = || NewJob::raw("b", "{}");
    let sorts = [
        gated().rule(Limit::new("many", 20)).unwrap(),
        gated().rule(Rate::new("many", 1, HOUR).burst(20)).unwrap(),
        gated().rule(Limit::new("many", 20)).unwrap().rule(Limit::new("all", 30)).unwrap(),
        gated().rule(Limit::new("many", 20)).unwrap().rule(Rate::new("all", 1, HOUR).burst(20)).unwrap(),
    ];
    for sort in sorts {
        run::<Postgres, _>(async |f: Postgres| {
            let db = f.database();
            let mut holder = closes_gate(&f, AT_START).await;
            let mut waiting = enqueue_all(&f, vec![sort.clone(); 20]).await;
            for key in ["k1", "k2", "k3", "k4"] {
                waiting.push(enqueue(&f, alone("b", key)).await);
            }
            let other = enqueue(&f, limited("y")).await;
            let mut passes = 0;
            while state(db, other).await != Available {
                pass(&f, false).await;
                put_off(&f).await;
                passes += 1;
                assert!(passes <= 6, "each pass has done with one of the five other keys");
            }
            while states(db, &waiting).await != [Scheduled; 24] {
                pass(&f, false).await;
                put_off(&f).await;
                passes += 1;
                assert!(passes <= ENOUGH, "{sort:?}: not all of them were tried");
            }
            // They have left their permits and tokens to others.
            holder.batch_execute("rollback").await.unwrap();
            execute(&f, &Postgres::passed(HOUR)).await;
            admit_all(db).await;
            assert_eq!(states(db, &waiting).await, [Available; 24], "{sort:?}");
            none(db, "admission").await;
        });
    }
}

/// A pass may have time for one key of which a job has failed before. It is not always the same one.
#[test]
fn keys_of_which_jobs_have_failed_take_turns() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let _holder = closes_gate(&f, AT_START).await;
        enqueue(&f, alone("b", "k")).await;
        pass(&f, false).await;
        put_off(&f).await;
        enqueue_all(&f, vec![NewJob::raw("b", "{}").rule(Limit::new("many", 300)).unwrap(); 300]).await;
        pass(&f, false).await;
        put_off(&f).await;
        let other = enqueue(&f, alone("y", "k")).await;
        let mut passes = 0;
        while state(db, other).await != Available {
            pass(&f, false).await;
            put_off(&f).await;
            passes += 1;
            assert!(passes <= 25, "each pass begins with one of two keys, and 250 jobs of the other one were tried");
        }
    });
}

#[test]
fn jobs_that_become_due_and_wait_for_a_lock_stop_no_other_key() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let when_due = "create trigger enter before update on jobs.held for each row
                        when (old.later and not new.later and new.kind = 'b') execute function enter()";
        let mut holder = closes_gate(&f, when_due).await;
        let due = |mut job: NewJob| {
            job.run_at = RunAt::After(MINUTE);
            job
        };
        let waiting =
            enqueue_all(&f, vec![due(NewJob::raw("b", "{}").rule(Limit::new("many", 20)).unwrap()); 20]).await;
        let other = enqueue(&f, due(limited("y"))).await;
        execute(&f, &Postgres::passed(MINUTE)).await;
        let mut passes = 0;
        while state(db, other).await != Available {
            pass(&f, true).await;
            put_off(&f).await;
            passes += 1;
            assert!(passes <= 21, "each pass has tried another job");
        }
        holder.batch_execute("rollback").await.unwrap();
        execute(&f, &Postgres::passed(HOUR)).await;
        admit_all(db).await;
        assert_eq!(states(db, &waiting).await, [Available; 20]);
        none(db, "admission").await;
    });
}
