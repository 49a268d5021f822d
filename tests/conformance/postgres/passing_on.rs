//! A finish passes the permits of completed jobs on to the next held jobs of their keys, and does nothing else that
//! admission would not do.

use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_jobs_core::storage::{Finished, PassOn};
use diesel_jobs_core::{ClaimedJob, Finish, JobId, JobState, Limit, NewJob, Rate, Sequence};
use diesel_jobs_storage::Database;
use futures_util::StreamExt as _;

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};
use crate::limiting::{admit, check, limited};

/// Completes these jobs and returns how many permits were passed on.
async fn complete(db: &Database, jobs: &[ClaimedJob]) -> usize {
    let finishes: Vec<_> = jobs.iter().map(|job| Finish::new(job, DONE)).collect();
    let Finished { moved, passed_on, is_free, claimed } = db.storage.finish(&finishes, PassOn::Permits).await.unwrap();
    assert_eq!((moved.len(), claimed.len()), (jobs.len(), 0));
    assert_eq!(is_free, passed_on < jobs.len());
    passed_on
}

/// Two running jobs of the key `x`, which has two permits. These jobs wait behind them.
pub(super) async fn two_before(f: &Postgres, others: Vec<NewJob>) -> (Vec<ClaimedJob>, Vec<JobId>) {
    let db = f.database();
    enqueue_all(f, vec![limited("x"); 2]).await;
    assert_eq!(admit(db).await, 2);
    let running = claim(db, worker(db).await, 9).await;
    assert_eq!(running.len(), 2);
    let others = enqueue_all(f, others).await;
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 0);
    (running, others)
}

async fn nudges(f: &Postgres) -> i64 {
    f.client().await.number("select count(*) as number from jobs.nudge").await
}

#[test]
fn a_completed_job_passes_its_permit_on() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let important = with(|job| job.priority = 5).rule(Limit::new("stripe", 2).key("x")).unwrap();
        let (running, others) = two_before(&f, vec![limited("x"), important, limited("x")]).await;
        assert_eq!(complete(db, &running[..1]).await, 1);
        assert_eq!(state(db, others[1]).await, JobState::Available, "the highest priority comes first");
        assert_eq!(nudges(&f).await, 0, "nothing is free");
        assert_eq!(admit(db).await, 0);
        check(&f).await;
        assert_eq!(complete(db, &running[1..]).await, 1);
        assert_eq!(state(db, others[0]).await, JobState::Available);
        let next = claim(&f.again().await, running[0].lease.worker, 9).await;
        assert_eq!(ids(&next), [others[1], others[0]]);
        assert_eq!(complete(db, &next).await, 1, "one job is left for two permits");
        assert_eq!(nudges(&f).await, 1);
        assert_eq!(state(db, others[2]).await, JobState::Available);
        check(&f).await;
    });
}

#[test]
fn each_key_keeps_its_permits() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let one = |key: u32| job().rule(Limit::new("one", 1).key(key)).unwrap();
        enqueue_all(&f, (0..40).map(|number| one(number % 20)).collect()).await;
        assert_eq!(admit(db).await, 20);
        let running = claim(db, worker, 40).await;
        // The last of them are late: their worker was declared dead.
        let (mut running, late) = (running[..15].to_vec(), running[15..].to_vec());
        let sql = format!("update jobs.running set lease = lease + 1 where id = any('{{{}}}')", {
            late.iter().map(|job| job.lease.job.to_string()).collect::<Vec<_>>().join(",")
        });
        f.client().await.execute(&sql).await.unwrap();
        let finishes: Vec<_> = running.iter().chain(&late).map(|job| Finish::new(job, DONE)).collect();
        let Finished { moved, passed_on, is_free, .. } = db.storage.finish(&finishes, PassOn::Permits).await.unwrap();
        assert_eq!((moved.len(), passed_on, is_free), (15, 15, true));
        let permits = "select count(*) as number from jobs.permit";
        assert_eq!(f.client().await.number(permits).await, 20);
        assert_eq!(db.storage.admit(true).await.unwrap().admitted, 0, "the late jobs keep their permits");
        running = claim(db, worker, 40).await;
        assert_eq!(complete(db, &running).await, 0);
        check(&f).await;
    });
}

#[test]
fn a_lower_limit_holds_at_once() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let (running, _) = two_before(&f, vec![limited("x"); 3]).await;
        assert!(db.operator.set_limit("stripe", 1, "ann", None).await.unwrap());
        assert_eq!(complete(db, &running[..1]).await, 0);
        assert_eq!(admit(db).await, 0);
        assert_eq!(complete(db, &running[1..]).await, 1);
        let next = claim(db, running[0].lease.worker, 9).await;
        // The first job of the key says how many may run, even if those that have started say another number.
        assert!(db.operator.reset_limit("stripe", "ann").await.unwrap());
        f.client().await.execute("update jobs.held set most = 0").await.unwrap();
        assert_eq!(complete(db, &next).await, 0);
        check(&f).await;
    });
}

#[test]
fn jobs_that_may_not_start_get_no_permit() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        for what in ["a queue", "a kind", "everything"] {
            let queue = "mail".to_owned();
            let other = with(|job| job.queue = queue.into()).rule(Limit::new("stripe", 2).key("x")).unwrap();
            let (running, others) = two_before(&f, vec![other, limited("x")]).await;
            match what {
                "a queue" => db.operator.pause_queue("mail", "ann", None).await.unwrap(),
                "a kind" => db.operator.pause_kind("a", "ann", None).await.unwrap(),
                _ => db.operator.freeze("ann", "restore").await.unwrap(),
            };
            assert_eq!(complete(db, &running).await, 0, "{what}");
            assert_eq!(state(db, others[0]).await, JobState::Held);
            match what {
                "a queue" => db.operator.resume_queue("mail", "ann").await.unwrap(),
                "a kind" => db.operator.resume_kind("a", "ann").await.unwrap(),
                _ => db.operator.thaw("ann").await.unwrap(),
            };
            assert_eq!(db.storage.admit(true).await.unwrap().admitted, 2, "{what}");
            let rest = claim(db, worker(db).await, 9).await;
            let mail = claim_from(db, "mail").await;
            assert_eq!(complete(db, &[rest, mail].concat()).await, 0);
            db.storage.admit(true).await.unwrap();
            check(&f).await;
        }
    });
}

async fn claim_from(db: &Database, queue: &str) -> Vec<ClaimedJob> {
    db.storage.claim(&wants(worker(db).await, &[(queue, 9)])).await.unwrap()
}

#[test]
fn admission_alone_decides_about_rates_sequences_tenants_and_several_limits() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let stripe = || Limit::new("stripe", 2).key("x");
        let jobs = [
            ("tenants", job().rule(stripe().fair_by("a")).unwrap()),
            ("several limits", job().rule(stripe()).unwrap().rule(Limit::new("other", 1)).unwrap()),
            ("a rate", job().rule(Rate::new("stripe", 1, HOUR).key("x")).unwrap()),
            ("a sequence", job().rule(Sequence::new("stripe").key("x")).unwrap()),
        ];
        for (what, other) in jobs {
            enqueue_all(&f, vec![limited("x"); 2]).await;
            assert_eq!(admit(db).await, 2);
            let running = claim(db, worker(db).await, 9).await;
            let id = enqueue(&f, other).await;
            assert_eq!(complete(db, &running).await, 0, "{what}");
            assert_eq!(state(db, id).await, JobState::Held, "{what}");
            assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1, "{what}");
            let last = claim(db, worker(db).await, 9).await;
            assert_eq!(ids(&last), [id], "{what}");
            assert!(finish(db, &last[0], DONE).await);
            db.storage.admit(true).await.unwrap();
        }
    });
}

#[test]
fn the_jobs_before_one_that_is_left_to_admission_get_permits_and_it_is_not_locked() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let (running, others) = two_before(&f, vec![limited("x"), limited("x")]).await;
        f.client().await.execute(&format!("update jobs.held set id = 256 where id = {}", others[1])).await.unwrap();
        let mut pass = AsyncPgConnection::establish(&f.url).await.unwrap();
        pass.batch_execute("begin; select from jobs.held where id = 256 for update").await.unwrap();
        assert_eq!(complete(db, &running).await, 1);
        assert_eq!(state(db, others[0]).await, JobState::Available);
        pass.batch_execute("commit").await.unwrap();
        assert_eq!(admit(db).await, 1);
        check(&f).await;
    });
}

#[test]
fn a_key_with_a_tenant_or_many_permits_is_left_to_admission() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let tenant = job().rule(Limit::new("stripe", 2).key("x").fair_by("a")).unwrap();
        // The job with a tenant is behind as many others as there are permits.
        let (running, _) = two_before(&f, vec![limited("x"), limited("x"), tenant]).await;
        assert_eq!(complete(db, &running).await, 0);
        assert_eq!(admit(db).await, 2);
        for most in [500, 501] {
            let queue = format!("many{most}");
            let many =
                || with(|job| job.queue = queue.clone().into()).rule(Limit::new("many", most).key(most)).unwrap();
            enqueue_all(&f, (0..=most).map(|_| many()).collect()).await;
            assert_eq!(admit(db).await, most as usize);
            let one = claim_from(db, &queue).await.remove(0);
            assert_eq!(complete(db, &[one]).await, usize::from(most == 500), "{most}");
        }
    });
}

#[test]
fn a_held_job_that_changes_meanwhile_is_left_to_admission() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let (running, others) = two_before(&f, vec![limited("x"), limited("x")]).await;
        // The finish waits for the lock of its permit. Its snapshot is older than the change.
        let mut operator = AsyncPgConnection::establish(&f.url).await.unwrap();
        let lock = format!("begin; select from jobs.permit where job_id = {} for update", running[0].lease.job);
        operator.batch_execute(&lock).await.unwrap();
        let finishing = async { complete(db, &running[..1]).await };
        let changing = async {
            let blocked = "select count(*) as number from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
            let mut client = f.client().await;
            while client.number(blocked).await == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            client
                .execute(&format!("update jobs.held set tags = '{{changed}}' where id = {}", others[0]))
                .await
                .unwrap();
            operator.batch_execute("commit").await.unwrap();
        };
        let (passed_on, ()) = tokio::join!(finishing, changing);
        assert_eq!((passed_on, nudges(&f).await), (0, 1));
        assert_eq!(admit(db).await, 1);
        assert_eq!(state(db, others[0]).await, JobState::Available);
        check(&f).await;
    });
}

#[test]
fn a_held_job_that_the_database_refuses_stops_no_finish() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let bad = with(|job| job.queue = "bad".into()).rule(Limit::new("stripe", 2).key("x")).unwrap();
        let (running, others) = two_before(&f, vec![bad, limited("x")]).await;
        let refuse = "create function refuse() returns trigger language plpgsql as $$ begin
            if new.queue = 'bad' then raise exception 'not this one'; end if; return new; end $$;
            create trigger refuse before insert on jobs.ready for each row execute function refuse()";
        f.client().await.execute(refuse).await.unwrap();
        assert_eq!(complete(db, &running).await, 0);
        let found = db.storage.admit(false).await.unwrap();
        assert_eq!((found.admitted, found.refused), (1, 1));
        assert_eq!(state(db, others[1]).await, JobState::Available);
        check(&f).await;
    });
}

#[test]
fn an_error_of_a_held_job_that_may_pass_stops_no_finish() {
    // A conflict is an error after which the same statement may succeed.
    for code in ["55000", "40001", "53100", "57014"] {
        run::<Postgres, _>(async |f: Postgres| {
            let db = f.database();
            let bad = with(|job| job.queue = "bad".into()).rule(Limit::new("stripe", 2).key("x")).unwrap();
            let (running, others) = two_before(&f, vec![bad, limited("x")]).await;
            let refuse = format!(
                "create function refuse() returns trigger language plpgsql as $$ begin
                     if new.queue = 'bad' then raise exception 'canceling statement due to it' using errcode = '{code}'; end if; return new; end $$;
                 create trigger refuse before insert on jobs.ready for each row execute function refuse()"
            );
            f.client().await.execute(&refuse).await.unwrap();
            assert_eq!(complete(db, &running).await, 0, "{code}");
            let mut admitted = 0;
            for _ in 0..3 {
                // The first one may be cancelled.
                admitted += db.storage.admit(false).await.map_or(0, |found| found.admitted);
            }
            let key_is_left_out = code == "57014";
            assert_eq!(admitted, usize::from(!key_is_left_out), "{code}");
            let expected = if key_is_left_out { JobState::Held } else { JobState::Available };
            assert_eq!(state(db, others[1]).await, expected, "{code}");
            check(&f).await;
        });
    }
}

#[test]
fn an_idle_worker_hears_of_the_next_job() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let (running, _) = two_before(&f, vec![limited("x"), limited("x")]).await;
        let mut listener = AsyncPgConnection::establish(&f.url).await.unwrap();
        listener.batch_execute("listen jobs").await.unwrap();
        assert_eq!(complete(db, &running[..1]).await, 1, "no worker is idle");
        db.storage.set_idle(worker(db).await, true).await.unwrap();
        assert_eq!(complete(db, &running[1..]).await, 1);
        listener.batch_execute("notify jobs, 'the end'").await.unwrap();
        let heard: Vec<_> = listener.notifications_stream().take(2).map(|heard| heard.unwrap().payload).collect().await;
        assert_eq!(heard, ["default", "the end"]);
    });
}
