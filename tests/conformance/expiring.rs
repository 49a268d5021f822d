//! Jobs that expire: they are cancelled if their first attempt does not start in time.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::__private::{EXPIRED, is_expired};
use diesel_jobs_core::storage::{Action, EndedWaiting, Operated, WaitEnd};
use diesel_jobs_core::{
    ClaimedJob, JobId, JobState, Limit, NewJob, OnConflict, Rate, Replace, RunAt, Sequence, Transition, Unique,
    WorkerId,
};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::examining::{found, none};
use crate::fixture::Fixture;
use crate::limiting::admit;
use crate::on_full::{put_off, refused, refusing};

use JobState::{Available, Cancelled, Completed, Held, Running, Scheduled};

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The same job, which expires ten minutes after it is due.
fn expiring(mut job: NewJob) -> NewJob {
    job.expires = Some(TEN_MINUTES);
    job
}

async fn let_pass<F: Fixture>(f: &F, time: Duration) {
    f.client().await.execute(&F::passed(time)).await.unwrap();
}

/// A worker without scan floors: time that passes moves jobs below them.
async fn fresh(db: &Database) -> WorkerId {
    worker(db).await
}

/// What a sweep does. Returns how many jobs have expired.
async fn sweep(db: &Database) -> usize {
    if !db.storage.admit(true).await.unwrap().expired {
        return 0;
    }
    db.storage.expire(HOUR).await.unwrap().len()
}

async fn is_over(db: &Database, job: &ClaimedJob) -> bool {
    is_expired(job, now(db).await)
}

fn after(time: DateTime<Utc>, seconds: i64) -> DateTime<Utc> {
    time + TimeDelta::seconds(seconds)
}

pub(crate) async fn a_first_attempt_says_by_when_it_must_start<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let one = client.enqueue(expiring(job())).await.unwrap();
        let limited = job().rule(Limit::new("stripe", 9)).unwrap();
        let unique = expiring(job().unique(Unique::new()).unwrap());
        let many = vec![job(), expiring(job()), expiring(limited), unique, expiring(later(HOUR))];
        let many = client.enqueue_all(many).await.unwrap();
        assert_eq!(admit(db).await, 1, "{name}");
        let jobs = claim(db, worker, 9).await;
        assert_eq!(jobs.len(), 5, "{name}");
        for job in jobs {
            match job.lease.job == many[0] {
                true => assert_eq!(job.start_by, None, "{name}"),
                false => assert!(close(job.start_by.unwrap(), after(job.run_at, 600)), "{name}"),
            }
            assert!(!is_over(db, &job).await, "{name}");
            assert!(finish(db, &job, DONE).await, "{name}");
        }
        assert_eq!((state(db, one).await, state(db, many[4]).await), (Completed, Scheduled), "{name}");
        let later = db.operator.surroundings(many[4]).await.unwrap().start_by;
        assert!(close(later.unwrap(), after(now(db).await, 4200)), "{name}");
        client.begin().await;
        client.enqueue(expiring(job())).await.unwrap();
        client.rollback().await;
    }
    if F::TABLES.contains(&"expiry") {
        let rows = f.client().await.number("select count(*) as number from jobs.expiry").await;
        assert_eq!(rows, f.clients().await.len() as i64, "the rows of jobs that have ended are deleted");
    }
}

pub(crate) async fn waiting_jobs_that_have_expired_are_cancelled<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let limited = || job().rule(Limit::new("stripe", 1)).unwrap();
    let rated = || job().rule(Rate::new("api", 1, 24 * HOUR)).unwrap();
    let ordered = || job().rule(Sequence::new("orders")).unwrap();
    let mut elsewhere = expiring(job());
    (elsewhere.queue, elsewhere.kind) = ("paused".into(), "b".into());
    let others = enqueue_all(&f, vec![job(), limited(), rated(), ordered(), limited(), ordered()]).await;
    let gone = enqueue_all(&f, vec![expiring(limited()), expiring(rated()), expiring(ordered()), elsewhere]).await;
    let unique = enqueue(&f, expiring(job().unique(Unique::new()).unwrap())).await;
    let later = enqueue(&f, expiring(later(HOUR))).await;
    let late = enqueue(&f, expiring(limited())).await;
    assert_eq!(admit(db).await, 3);
    assert_eq!(sweep(db).await, 0);
    let_pass(&f, TEN_MINUTES - MINUTE).await;
    assert_eq!(sweep(db).await, 0);
    let_pass(&f, 2 * MINUTE).await;
    assert!(!db.storage.admit(false).await.unwrap().expired, "only a sweep looks");
    assert!(db.storage.admit(true).await.unwrap().expired);
    let mut expired = db.storage.expire(HOUR).await.unwrap();
    expired.sort_by(|one, other| one.queue.cmp(&other.queue));
    let of =
        |queue: &str, kind: &str| EndedWaiting { queue: queue.to_owned(), kind: kind.to_owned(), state: Cancelled };
    let five = || std::iter::repeat_n(of("default", "a"), 5);
    assert_eq!(expired, five().chain([of("paused", "b")]).collect::<Vec<_>>());
    for id in gone.into_iter().chain([unique, late]) {
        let record = record(db, id).await;
        assert_eq!((record.state, record.attempt), (Cancelled, 0));
        let failures = failures(db, id).await;
        assert_eq!(failures.len(), 1);
        assert_eq!((&*failures[0].message, &failures[0].actor), (EXPIRED, &None));
    }
    assert_eq!(state(db, later).await, Scheduled);
    // The others continue, and the key is free.
    let jobs = claim(db, worker, 9).await;
    assert_eq!(ids(&jobs).len(), 4);
    for job in jobs {
        assert!(finish(db, &job, DONE).await);
    }
    assert_eq!(admit(db).await, 2);
    crate::limiting::check(&f).await;
    for (id, expected) in others.iter().zip([Completed, Completed, Completed, Completed, Available, Available]) {
        assert_eq!(state(db, *id).await, expected, "{id}");
    }
    assert_ne!(enqueue(&f, job().unique(Unique::new()).unwrap()).await, unique);
    assert_eq!(sweep(db).await, 0);
}

/// The refused jobs expire first.
pub(crate) async fn a_job_that_is_not_cancelled_stops_no_other<F: Fixture>(f: F) {
    let db = f.database();
    let (refuse, repair) = refusing::<F>();
    f.client().await.execute(refuse).await.unwrap();
    let held = || expiring(job().rule(Limit::new("stripe", 1)).unwrap());
    enqueue(&f, job().rule(Limit::new("stripe", 1)).unwrap()).await;
    let jobs = [expiring(job()), held()].map(refused);
    let bad = enqueue_all(&f, jobs.to_vec()).await;
    let_pass(&f, MINUTE).await;
    let good = enqueue_all(&f, vec![expiring(job()), held(), expiring(job())]).await;
    assert_eq!(admit(db).await, 1);
    let_pass(&f, TEN_MINUTES + MINUTE).await;
    assert_eq!(sweep(db).await, 3);
    put_off(&f).await;
    for id in good {
        assert_eq!(state(db, id).await, Cancelled);
    }
    assert_eq!((state(db, bad[0]).await, state(db, bad[1]).await), (Available, Held));
    // They are not tried in each sweep, and others expire meanwhile.
    let other = expiring(job());
    enqueue_all(&f, vec![other]).await;
    let_pass_until_expired(&f).await;
    let ends = db.storage.end_waiting(WaitEnd::Expired, POLICY.retention).await.unwrap();
    assert_eq!((ends.ended.len(), ends.refused.len()), (1, 0));
    let findings = found(db, "admission").await;
    assert_eq!(findings.len(), 2, "{findings:?}");
    for id in bad {
        let what = format!("the end of job {id} (refused) in queue `default` has failed once since ");
        assert!(findings.iter().any(|finding| finding.what.starts_with(&what)), "{findings:?}");
    }
    f.client().await.execute(repair).await.unwrap();
    let_pass(&f, MINUTE).await;
    assert_eq!(sweep(db).await, 2);
    none(db, "admission").await;
    assert_eq!(sweep(db).await, 0);
    if F::TABLES.contains(&"expiry") {
        assert_eq!(f.client().await.number("select count(*) as number from jobs.expiry").await, 0);
    }
    crate::limiting::check(&f).await;
}

/// Lets all jobs that expire do so, and moves no other time.
async fn let_pass_until_expired<F: Fixture>(f: &F) {
    let expire = match F::TABLES.contains(&"expiry") {
        true => "update jobs.expiry set start_by = start_by - interval '1 hour'",
        false => "update jobs_job set start_by = start_by - 3600000000 where start_by is not null",
    };
    f.client().await.execute(expire).await.unwrap();
}

pub(crate) async fn a_claimed_job_is_left_to_its_worker<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let job = claimed(&f, worker, expiring(job())).await;
    let_pass(&f, HOUR).await;
    assert_eq!(sweep(db).await, 0);
    assert_eq!(state(db, job.lease.job).await, Running);
    assert!(finish(db, &job, DONE).await);
}

pub(crate) async fn a_released_job_still_expires<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let prefetched = claimed(&f, worker, expiring(job())).await;
    assert!(finish(db, &prefetched, Transition::Release).await);
    let prefetched = claim(db, fresh(db).await, 1).await.remove(0);
    assert!(!is_over(db, &prefetched).await);
    let_pass(&f, HOUR).await;
    // The sweep sees that its time is over while it is claimed.
    assert_eq!(sweep(db).await, 0);
    assert!(finish(db, &prefetched, Transition::Release).await);
    let again = claim(db, fresh(db).await, 1).await.remove(0);
    assert!(is_over(db, &again).await);
}

pub(crate) async fn a_job_that_has_started_does_not_expire<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let limited = expiring(job().rule(Limit::new("stripe", 9)).unwrap());
    for (first, transition) in [
        (expiring(job()), Transition::Snooze(Duration::ZERO)),
        (limited.clone(), Transition::Snooze(Duration::ZERO)),
        (expiring(job()), retry_in(Duration::ZERO)),
        (limited, retry_in(Duration::ZERO)),
    ] {
        let id = enqueue(&f, first).await;
        admit(db).await;
        let job = claim(db, worker, 1).await.remove(0);
        assert!(job.start_by.is_some());
        assert!(finish(db, &job, transition.clone()).await);
        let_pass(&f, HOUR).await;
        assert_eq!(sweep(db).await, 0, "{transition:?}");
        admit(db).await;
        let job = claim(db, fresh(db).await, 1).await.remove(0);
        assert_eq!((job.lease.job, job.start_by), (id, None), "{transition:?}");
        assert!(finish(db, &job, DONE).await);
    }
}

async fn act(db: &Database, action: Action, id: JobId) -> Operated {
    db.operator.act(&action, &[id], "ann").await.unwrap()[0]
}

pub(crate) async fn an_operator_runs_an_expired_job<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for job in [expiring(job()), expiring(job().rule(Limit::new("stripe", 9)).unwrap())] {
        let id = enqueue(&f, job).await;
        let_pass(&f, HOUR).await;
        assert_eq!(sweep(db).await, 1);
        let Operated::Enqueued(new) = act(db, Action::Rerun, id).await else { panic!("it is not enqueued anew") };
        assert_eq!(act(db, Action::Retry, id).await, Operated::Done);
        assert_eq!(sweep(db).await, 0);
        admit(db).await;
        let_pass(&f, HOUR).await;
        assert_eq!(sweep(db).await, 0);
        let mut jobs = claim(db, fresh(db).await, 9).await;
        jobs.sort_by_key(|job| job.lease.job);
        assert_eq!(ids(&jobs), [id, new]);
        for job in jobs {
            assert_eq!(job.start_by, None);
            assert!(finish(db, &job, DONE).await);
        }
    }
    // A job that waits keeps its time.
    let id = enqueue(&f, expiring(later(HOUR))).await;
    assert_eq!(act(db, Action::RunNow, id).await, Operated::Done);
    let job = claim(db, worker, 1).await.remove(0);
    assert!(close(job.start_by.unwrap(), after(now(db).await, 4200)));
}

pub(crate) async fn a_changed_time_moves_the_expiry<F: Fixture>(f: F) {
    let db = f.database();
    let rule = Unique::new().on_conflict(OnConflict::Replace(Replace::new().run_at()));
    for limited in [false, true] {
        let of = |run_at| {
            let job = with(|job| (job.run_at, job.args) = (run_at, format!("{{\"limited\": {limited}}}")));
            let job = expiring(job.unique(rule).unwrap());
            if limited { job.rule(Limit::new("stripe", 1)).unwrap() } else { job }
        };
        let id = enqueue(&f, of(RunAt::Now)).await;
        admit(db).await;
        let_pass(&f, MINUTE).await;
        assert_eq!(enqueue(&f, of(RunAt::After(HOUR))).await, id);
        let start_by = db.operator.surroundings(id).await.unwrap().start_by;
        assert!(close(start_by.unwrap(), after(now(db).await, 4200)), "{limited}");
        let_pass(&f, TEN_MINUTES).await;
        assert_eq!(sweep(db).await, 0, "{limited}");
        assert_eq!(state(db, id).await, Scheduled, "{limited}");
    }
}

pub(crate) async fn the_time_of_a_schedule_counts<F: Fixture>(f: F) {
    let db = f.database();
    let tick = now(db).await - TimeDelta::seconds(900);
    let late = enqueue(&f, with(|job| (job.run_at, job.expires) = (RunAt::Exactly(tick), Some(TEN_MINUTES)))).await;
    let held = expiring(job().rule(Limit::new("stripe", 1)).unwrap());
    let in_time = enqueue(&f, held).await;
    assert_eq!(sweep(db).await, 1);
    assert_eq!((state(db, late).await, state(db, in_time).await), (Cancelled, Available));
}

pub(crate) async fn nothing_expires_while_the_database_is_frozen<F: Fixture>(f: F) {
    let db = f.database();
    let id = enqueue(&f, expiring(job())).await;
    let held = enqueue(&f, expiring(job().rule(Limit::new("stripe", 1)).unwrap())).await;
    db.operator.freeze("cy", "restore").await.unwrap();
    let_pass(&f, HOUR).await;
    assert_eq!(sweep(db).await, 0);
    assert_eq!((state(db, id).await, state(db, held).await), (Available, Held));
    db.operator.thaw("cy").await.unwrap();
    assert_eq!(sweep(db).await, 2);
}

pub(crate) async fn why_says_when_a_job_expires<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let plain = enqueue(&f, job()).await;
    let id = enqueue(&f, expiring(job())).await;
    assert_eq!(db.operator.why(plain).await.unwrap().start_by, None);
    let start_by = db.operator.why(id).await.unwrap().start_by.unwrap();
    assert!(close(start_by, after(now(db).await, 600)));
    assert_eq!(claim(db, worker, 2).await.len(), 2);
    assert_eq!(db.operator.why(id).await.unwrap().start_by, None, "it has started");
}
