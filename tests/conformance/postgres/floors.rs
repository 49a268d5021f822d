//! The floors of admission: where a pass begins to read keys from which many jobs were taken.

use diesel_jobs_core::{JobState, Limit, NewJob, RunAt};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, Inspect as _, Port as _, run};
use crate::limiting::admit;

/// A pass that finds this many free permits writes the floor of the key for certain.
const MOST: u32 = 100;

fn wide() -> NewJob {
    job().rule(Limit::new("wide", MOST)).unwrap()
}

fn urgent() -> NewJob {
    let mut job = wide();
    job.priority = 7;
    job
}

async fn of_floor(f: &Postgres, what: &str) -> i64 {
    let number = format!(
        "select coalesce(({what})::bigint, -1) as number from (
            select floors -> 0 as floor from jobs.admission_floor order by number desc limit 1
        ) newest"
    );
    f.client().await.number(&number).await
}

/// Ends this many jobs of the key, and gives their permits back as a finish does.
async fn end(f: &Postgres, jobs: usize) {
    let end = format!(
        "with gone as (delete from jobs.ready where id in (select id from jobs.ready order by id limit {jobs}) returning id),
              freed as (delete from jobs.permit where job_id in (select id from gone) returning limit_name, limit_key)
         insert into jobs.nudge (limit_name, limit_key, run_at) select distinct limit_name, limit_key, null::timestamptz from freed"
    );
    f.client().await.execute(&end).await.unwrap();
}

#[test]
fn a_pass_begins_to_read_where_the_last_one_found_jobs() {
    run::<Postgres, _>(async |f: Postgres| {
        let ids = enqueue_all(&f, vec![wide(); 350]).await;
        assert_eq!(admit(f.database()).await, 100);
        assert_eq!(of_floor(&f, "floor ->> 'id'").await, ids[0].0);
        for first in [100, 200] {
            end(&f, 100).await;
            assert_eq!(admit(f.database()).await, 100);
            assert_eq!(of_floor(&f, "floor ->> 'id'").await, ids[first].0);
            let taken = f.client().await.number("select count(*) as number from jobs.permit").await;
            assert_eq!(taken, i64::from(MOST));
            let floor = of_floor(&f, "floor ->> 'first_permit'").await;
            let first = f.client().await.number("select min(number) as number from jobs.permit").await;
            assert!(floor <= first && floor > 0, "{floor} {first}");
        }
        let floors = f.client().await.number("select count(*) as number from jobs.admission_floor").await;
        assert_eq!(floors, 1, "the earlier ones are deleted");
    });
}

/// A transaction that commits late brings a job with an earlier time, and another one a job with a higher priority.
/// Their nudges say so. Without that, the jobs would wait until a sweep finds a free permit.
#[test]
fn jobs_that_come_below_a_floor_lower_it() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        for is_broken in [false, true] {
            if is_broken {
                let without = "create function without() returns trigger language plpgsql as $$ begin
                    new.run_at := null; return new; end $$;
                    create trigger without before insert on jobs.nudge for each row execute function without()";
                f.client().await.execute(without).await.unwrap();
            }
            let mut late = f.client().await;
            late.begin().await;
            let early = late.enqueue(wide()).await.unwrap();
            enqueue_all(&f, vec![wide(); 300]).await;
            assert_eq!(admit(db).await, 100);
            end(&f, 100).await;
            assert_eq!(admit(db).await, 100);
            late.commit().await;
            let urgent = enqueue(&f, urgent()).await;
            end(&f, 2).await;
            assert_eq!(admit(db).await, 2);
            for id in [early, urgent] {
                let expected = if is_broken { JobState::Held } else { JobState::Available };
                assert_eq!(state(db, id).await, expected, "broken: {is_broken}");
            }
            let all = "delete from jobs.held; delete from jobs.ready; delete from jobs.permit; delete from jobs.nudge";
            f.client().await.execute(all).await.unwrap();
        }
    });
}

/// Jobs of schedules have the times of their ticks, which have passed.
#[test]
fn jobs_whose_time_has_passed_at_their_enqueue_lower_a_floor() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        enqueue_all(&f, vec![wide(); 300]).await;
        assert_eq!(admit(db).await, 100);
        end(&f, 100).await;
        assert_eq!(admit(db).await, 100);
        let mut tick = wide();
        tick.run_at = RunAt::Exactly(db.now().await - HOUR);
        let mut other = tick.clone();
        other.kind = "b".into();
        // Each has another statement.
        for jobs in [vec![tick.clone()], vec![tick.clone(), tick.clone()], vec![tick, other]] {
            let ids = enqueue_all(&f, jobs).await;
            end(&f, ids.len()).await;
            assert_eq!(admit(db).await, ids.len());
            for id in ids {
                assert_eq!(state(db, id).await, JobState::Available);
            }
        }
    });
}

/// Rows are inserted by hand, without nudges.
#[test]
fn a_sweep_lowers_floors() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        enqueue_all(&f, vec![wide(); 200]).await;
        assert_eq!(admit(db).await, 100);
        end(&f, 100).await;
        assert_eq!(admit(db).await, 100);
        let hidden = enqueue(&f, urgent()).await;
        end(&f, 1).await;
        f.client().await.execute("delete from jobs.nudge").await.unwrap();
        assert_eq!(admit(db).await, 0);
        assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
        assert_eq!(state(db, hidden).await, JobState::Available);
    });
}

/// Many tests move all times back. Floors have times, too, and a pass that kept them would find no job of the key.
#[test]
fn jobs_are_found_after_a_test_has_moved_their_times() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        enqueue_all(&f, vec![wide(); 300]).await;
        assert_eq!(admit(db).await, 100);
        assert!(of_floor(&f, "floor ->> 'id'").await > 0);
        f.client().await.execute(&Postgres::passed(HOUR)).await.unwrap();
        end(&f, 100).await;
        assert_eq!(admit(db).await, 100);
    });
}

#[test]
fn a_lost_table_of_floors_loses_no_permit() {
    run::<Postgres, _>(async |f: Postgres| {
        enqueue_all(&f, vec![wide(); 1000]).await;
        assert_eq!(admit(f.database()).await, 100);
        for _ in 0..3 {
            end(&f, 100).await;
            assert_eq!(admit(f.database()).await, 100);
        }
        f.client().await.execute("delete from jobs.admission_floor").await.unwrap();
        for number in [100, 50, 100, 50] {
            end(&f, number).await;
            assert_eq!(admit(f.database()).await, number);
            let taken = f.client().await.number("select count(*) as number from jobs.permit").await;
            assert_eq!(taken, i64::from(MOST));
        }
    });
}
