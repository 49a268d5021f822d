//! Ten thousand transactional jobs on eight worker processes: each effect occurs exactly once, and jobs start in the
//! order of priority.

use std::time::{Duration, Instant};

use diesel_jobs::NewJob;
use support::{Db, Process};

use crate::table::{alone, print, row};

const JOBS: i64 = 10_000;
const PROCESSES: usize = 8;
const SLOTS: i64 = 4;

#[test]
fn ten_thousand_transactional_jobs_on_eight_processes_have_each_effect_once() {
    let _alone = alone();
    support::run(Db::postgres(), async |db| {
        let mut conn = db.conn().await;
        conn.execute("create table touched (place bigserial, job bigint, attempt smallint, priority smallint, pid int default pg_backend_pid())")
            .await;
        // Ten priorities, shuffled.
        let jobs = (0..JOBS).map(|number| {
            let priority = i16::try_from(number * 7919 % 10).unwrap();
            let mut job = NewJob::raw("touch", format!(r#"{{"priority":{priority}}}"#));
            job.priority = priority;
            job
        });
        conn.enqueue_all(jobs).await;

        let started = Instant::now();
        let mut processes = Vec::new();
        for _ in 0..PROCESSES {
            let slots = SLOTS.to_string();
            let args = ["run", "--slots", &slots, "--connections", &slots, "--poll-interval", "100ms"];
            processes.push(Process::worker(env!("CARGO_BIN_EXE_effects-worker"), db.url(), args));
        }
        support::within(Duration::from_secs(120), "all jobs", async {
            while conn.number("select count(*) as number from jobs.finished").await < JOBS {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        let took = started.elapsed();
        let workers = conn.number("select count(distinct worker) as number from jobs.finished").await;
        for process in processes {
            process.signal("TERM");
            assert_eq!(process.ended(Duration::from_secs(20)).code, 0);
        }

        let effects = conn.number("select count(*) as number from touched").await;
        let distinct = conn.number("select count(distinct job) as number from touched").await;
        let repeated =
            conn.number("select count(*) as number from jobs.job where attempt <> 1 or state <> 'completed'").await;
        // Jobs that were claimed and given back, by a process that stood still for a quarter of a second.
        let given_back = conn.number("select count(*) as number from jobs.finished where lease > 1").await;
        // The number of jobs that started before a waiting job of a higher priority. A job that was given back is not
        // counted as waiting, because it was prefetched.
        let ahead = conn
            .number(
                "with claims as (select claimed_at, priority, count(*) as jobs, min(lease) as lease from jobs.finished group by 1, 2)
                 select coalesce(sum(c.jobs), 0)::bigint as number from claims c
                 where exists (select from claims later where later.lease = 1 and later.priority > c.priority and later.claimed_at > c.claimed_at)",
            )
            .await;
        let rate = f64::from(i32::try_from(JOBS).unwrap()) / took.as_secs_f64();
        print(
            "10,000 transactional jobs, 8 processes of 4 slots",
            &[
                row!["jobs", "effects", "distinct", "repeated", "workers", "ahead of a higher priority", "jobs/s"],
                row![JOBS, effects, distinct, repeated, workers, ahead, format!("{rate:.0}")],
            ],
        );
        assert_eq!((effects, distinct, repeated), (JOBS, JOBS, 0), "each effect exactly once");
        assert_eq!(workers, i64::try_from(PROCESSES).unwrap(), "each process took part");
        // Claims of different workers run in parallel. There are nine steps from one priority to the next. At each
        // step, every process may have one claim in progress that skipped rows which another process then gave back, or
        // had not locked yet.
        assert!(given_back <= i64::try_from(PROCESSES).unwrap() * SLOTS, "{given_back} prefetched jobs went back");
        assert!(ahead <= 9 * i64::try_from(PROCESSES).unwrap() * SLOTS, "{ahead} jobs started before their betters");
    });
}
