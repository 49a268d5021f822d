//! A finish that passes slots on claims the jobs that get them, if the worker wants these jobs.

use diesel_jobs_core::storage::{Claim, Finished, PassOn, Wanted};
use diesel_jobs_core::{ClaimedJob, Finish, JobState, Lease, NewJob};
use diesel_jobs_storage::Database;

use super::Postgres;
use super::passing_on::two_before;
use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};
use crate::limiting::{check, limited};

/// Completes these jobs with a claim for the next ones.
async fn complete(db: &Database, jobs: &[ClaimedJob], next: &Claim) -> Finished {
    let finishes: Vec<_> = jobs.iter().map(|job| Finish::new(job, DONE)).collect();
    let finished = db.storage.finish(&finishes, PassOn::PermitsAndClaim(next)).await.unwrap();
    assert_eq!(finished.moved.len(), jobs.len());
    finished
}

/// A job like `limited("x")`, with this change.
fn changed(change: impl FnOnce(&mut NewJob)) -> NewJob {
    let mut job = limited("x");
    change(&mut job);
    job
}

#[test]
fn the_next_jobs_are_claimed_in_their_order() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let important = changed(|job| job.priority = 5);
        let (running, others) = two_before(&f, vec![limited("x"), important, limited("x")]).await;
        let worker = running[0].lease.worker;
        let next = wants(worker, &[("default", 2)]);
        let Finished { passed_on, claimed, is_free, .. } = complete(db, &running, &next).await;
        assert_eq!((passed_on, is_free), (0, false));
        assert_eq!(ids(&claimed), [others[1], others[0]]);
        for job in &claimed {
            assert_eq!((job.attempt, job.lease), (1, Lease { number: 1, worker, ..job.lease }));
            assert_eq!((&*job.kind, &*job.queue, &*job.args), ("a", "default", &b"{}"[..]));
            assert!(job.run_at <= job.claimed_at + std::time::Duration::from_secs(1));
            assert_eq!(state(db, job.lease.job).await, JobState::Running);
        }
        check(&f).await;
        let leases = db.storage.leases(worker, None).await.unwrap().valid;
        assert_eq!(leases.len(), 2, "the database knows the leases");
        let Finished { claimed, is_free, .. } = complete(db, &claimed, &next).await;
        assert_eq!((ids(&claimed), is_free), (vec![others[2]], true));
        assert!(complete(db, &claimed, &next).await.claimed.is_empty());
        check(&f).await;
    });
}

#[test]
fn a_queue_that_wants_fewer_jobs_than_may_get_a_permit_is_left_to_a_claim() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let (running, others) = two_before(&f, vec![limited("x"), limited("x")]).await;
        let worker = running[0].lease.worker;
        let Finished { passed_on, claimed, .. } = complete(db, &running, &wants(worker, &[("default", 1)])).await;
        assert_eq!((passed_on, claimed.len()), (2, 0));
        assert_eq!(ids(&claim(db, worker, 9).await), others);
        check(&f).await;
    });
}

#[test]
fn a_job_at_risk_is_claimed_for_a_free_slot_only() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        for (slots, prefetch) in [(2, 0), (0, 2)] {
            let last = changed(|job| job.max_attempts = 1);
            let (running, others) = two_before(&f, vec![last, limited("x")]).await;
            let mut next = wants(running[0].lease.worker, &[]);
            next.wanted = vec![Wanted { queue: "default".into(), slots, prefetch }];
            let Finished { claimed, .. } = complete(db, &running, &next).await;
            assert_eq!(ids(&claimed), others[usize::from(slots == 0)..], "{slots} free slots");
            let rest = claim(db, next.worker, 9).await;
            complete(db, &[claimed, rest].concat(), &wants(next.worker, &[])).await;
            db.storage.admit(true).await.unwrap();
        }
        check(&f).await;
    });
}

#[test]
fn what_the_worker_does_not_want_becomes_available() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        for what in ["another queue", "another kind", "another worker", "no worker", "a deadline", "a quarantined job"]
        {
            let other = match what {
                "another queue" => changed(|job| job.queue = "mail".into()),
                "another kind" => changed(|job| job.kind = "c".into()),
                "a deadline" => changed(|job| job.expires = Some(HOUR)),
                _ => limited("x"),
            };
            let (running, others) = two_before(&f, vec![other]).await;
            let mut next = wants(running[0].lease.worker, &[("default", 2)]);
            match what {
                "another worker" => next.worker = worker(db).await,
                "no worker" => db.storage.deregister(next.worker).await.unwrap(),
                "a quarantined job" => {
                    f.client().await.execute("update jobs.held set crashes = 2").await.unwrap();
                    next.quarantined_at = 2;
                }
                _ => {}
            }
            let Finished { passed_on, claimed, .. } = complete(db, &running, &next).await;
            assert_eq!((passed_on, claimed.len()), (1, 0), "{what}");
            assert_eq!(state(db, others[0]).await, JobState::Available, "{what}");
            db.operator.cancel(others[0]).await.unwrap();
            db.storage.admit(true).await.unwrap();
            check(&f).await;
        }
    });
}

#[test]
fn large_arguments_are_claimed_too() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let args = format!("{{\"text\":\"{}\"}}", "x".repeat(10_000));
        let large = changed(|job| job.args = args.clone());
        let (running, _) = two_before(&f, vec![large]).await;
        let claimed = complete(db, &running, &wants(running[0].lease.worker, &[("default", 2)])).await.claimed;
        assert_eq!(claimed[0].args, args.as_bytes());
        check(&f).await;
    });
}
