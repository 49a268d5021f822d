//! The floors of admission: where a pass begins to read keys from which many jobs were taken.

use std::time::Duration;

use diesel_jobs_core::{JobState, Limit, NewJob, Rate, RunAt, Sequence};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, Inspect as _, Port as _, run};
use crate::limiting::admit;

/// A pass that finds this many free permits writes the floor of the key for certain.
const MOST: u32 = 100;

/// Nudges do not say that they bring a job.
const WITHOUT: &str =
    "create function without() returns trigger language plpgsql as $$ begin new.run_at := null; return new; end $$;
    create trigger without before insert on jobs.nudge for each row execute function without()";

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
                f.client().await.execute(WITHOUT).await.unwrap();
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

/// `end_all` ends all started jobs as finishes do. `pass(n)` does so n times, each time before a pass of admission.
/// `pass_cost` makes a pass, and returns how many buffers it touches.
const PASSES: &str = "
create procedure end_all() language sql as $$
    with gone as (delete from jobs.ready returning id),
         freed as (delete from jobs.permit where job_id = any(array(select id from gone)) returning limit_name, limit_key)
    insert into jobs.nudge (limit_name, limit_key, run_at) select distinct limit_name, limit_key, null::timestamptz from freed
$$;
create procedure pass(passes integer) language plpgsql as $$ begin
    for i in 1 .. passes loop
        call end_all();
        commit;
        perform jobs.admit(false);
        commit;
    end loop;
end $$;
create function pass_cost() returns bigint language plpgsql as $$ declare plan json; begin
    execute 'explain (analyze, buffers, format json) select * from jobs.admit(false)' into plan;
    return (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end $$";

/// So many jobs of a key end, one in each pass, while another session keeps an old snapshot.
const ENDS: usize = 2000;
/// A pass that begins at its floors touches far fewer buffers, and one that reads the entries of all these jobs more.
const FEW: i64 = 200;

/// A token of this rate comes at once, and then no second one.
fn fast() -> NewJob {
    job().rule(Rate::new("fast", 10_000, Duration::from_secs(1)).burst(1)).unwrap()
}

/// Makes passes until one admits a job.
async fn admit_one(f: &Postgres) {
    while admit(f.database()).await == 0 {}
}

fn ordered() -> NewJob {
    job().rule(Sequence::new("orders")).unwrap()
}

/// Ends [`ENDS`] jobs like these under an old snapshot, and asserts that a pass then touches few buffers.
async fn assert_passes_stay_cheap(f: &Postgres, jobs: Vec<NewJob>) {
    assert_passes_touch(f, FEW, jobs).await;
}

async fn assert_passes_touch(f: &Postgres, few: i64, mut jobs: Vec<NewJob>) {
    for job in &mut jobs {
        // Few of these rows are on a page.
        job.args = format!(r#"{{"text":"{}"}}"#, "x".repeat(1000));
    }
    enqueue_all(f, jobs.into_iter().cycle().take(ENDS + 100).collect()).await;
    let (mut client, mut old) = (f.client().await, f.client().await);
    client.execute(PASSES).await.unwrap();
    client.execute("call pass(5)").await.unwrap();
    old.begin().await;
    old.execute("set transaction isolation level repeatable read").await.unwrap();
    old.number("select count(*) as number from jobs.permit").await;
    client.execute(&format!("call pass({ENDS})")).await.unwrap();
    // A pass looks at all nudges, whose table has no index. Their rows are short.
    client.execute("truncate jobs.nudge").await.unwrap();
    let (mut least, mut measured) = (i64::MAX, 0);
    while measured < 3 {
        client.execute("call pass(1)").await.unwrap();
        client.execute("call end_all()").await.unwrap();
        let cost = client.number("select pass_cost() as number").await;
        if client.number("select count(*) as number from jobs.ready").await == 1 {
            least = least.min(cost);
            measured += 1;
        }
    }
    assert!(least < few, "{least} buffers");
    old.rollback().await;
}

#[test]
fn an_old_snapshot_does_not_slow_down_the_passes_of_a_limit() {
    run::<Postgres, _>(async |f: Postgres| {
        assert_passes_stay_cheap(&f, vec![job().rule(Limit::new("one", 1)).unwrap()]).await
    });
}

#[test]
fn an_old_snapshot_does_not_slow_down_the_passes_of_a_sequence() {
    run::<Postgres, _>(async |f: Postgres| assert_passes_stay_cheap(&f, vec![ordered()]).await);
}

#[test]
fn an_old_snapshot_does_not_slow_down_the_passes_of_a_rate() {
    run::<Postgres, _>(async |f: Postgres| assert_passes_stay_cheap(&f, vec![fast()]).await);
}

/// While anything is paused, a pass first looks for jobs that it must pass over, and reads about a hundred that are
/// left.
#[test]
fn a_pause_elsewhere_makes_no_pass_read_more() {
    for job in [job().rule(Limit::new("one", 1)).unwrap(), ordered(), fast()] {
        run::<Postgres, _>(async |f: Postgres| {
            f.client().await.execute("insert into jobs.queue (name, paused) values ('other', true)").await.unwrap();
            assert_passes_touch(&f, 3 * FEW, vec![job.clone()]).await;
        });
    }
}

/// A pass still reads the entries of the tenant whose turn it is.
#[test]
fn an_old_snapshot_does_not_slow_down_the_passes_of_many_tenants() {
    run::<Postgres, _>(async |f: Postgres| {
        let tenants = (0..100).map(|tenant| job().rule(Limit::new("reports", 1).fair_by(tenant)).unwrap()).collect();
        assert_passes_stay_cheap(&f, tenants).await;
    });
}

/// A job of a transaction that commits late has a lower id than those before which it must start.
#[test]
fn a_job_below_the_floor_of_its_sequence_is_the_next_one() {
    for is_broken in [false, true] {
        run::<Postgres, _>(async |f: Postgres| {
            let db = f.database();
            let mut client = f.client().await;
            client.execute(PASSES).await.unwrap();
            if is_broken {
                client.execute(WITHOUT).await.unwrap();
            }
            let mut late = f.client().await;
            late.begin().await;
            let early = late.enqueue(ordered()).await.unwrap();
            enqueue_all(&f, vec![ordered(); 3000]).await;
            client.execute("call pass(1)").await.unwrap();
            // One in a hundred passes writes the floor.
            let floor = format!(
                "select count(*) as number from jobs.admission_floor, json_to_recordset(floors) as f (turn bigint) where turn > {early}"
            );
            while client.number(&floor).await == 0 {
                client.execute("call pass(20)").await.unwrap();
            }
            late.commit().await;
            client.execute("call pass(1)").await.unwrap();
            if is_broken {
                assert_eq!(state(db, early).await, JobState::Held);
                // A sweep finds it.
                client.execute("drop trigger without on jobs.nudge; call end_all()").await.unwrap();
                assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
            }
            assert_eq!(state(db, early).await, JobState::Available, "broken: {is_broken}");
        });
    }
}

/// An earlier time, and a higher priority.
#[test]
fn jobs_below_the_floor_of_a_rate_are_the_next_ones() {
    for is_broken in [false, true] {
        run::<Postgres, _>(async |f: Postgres| {
            let db = f.database();
            let mut client = f.client().await;
            if is_broken {
                client.execute(WITHOUT).await.unwrap();
            }
            let mut late = f.client().await;
            late.begin().await;
            let early = late.enqueue(fast()).await.unwrap();
            enqueue_all(&f, vec![fast(); 100]).await;
            admit_one(&f).await;
            admit_one(&f).await;
            let floor = format!("select count(*) as number from jobs.rate where id > {early}");
            assert_eq!(client.number(&floor).await, 1);
            late.commit().await;
            let mut urgent = fast();
            urgent.priority = 7;
            let urgent = enqueue(&f, urgent).await;
            for id in [urgent, early] {
                admit_one(&f).await;
                if is_broken {
                    assert_eq!(state(db, id).await, JobState::Held);
                }
            }
            if is_broken {
                client.execute("drop trigger without on jobs.nudge").await.unwrap();
                while state(db, early).await == JobState::Held {
                    db.storage.admit(true).await.unwrap();
                }
            }
            for id in [urgent, early] {
                assert_eq!(state(db, id).await, JobState::Available, "broken: {is_broken}");
            }
        });
    }
}
