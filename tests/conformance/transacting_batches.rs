//! Several jobs in one transaction: the writes of the handler and the finishes of all jobs are committed together, or
//! nothing is.

use diesel_jobs_core::storage::Transacted;
use diesel_jobs_core::{
    ClaimedJob, DiscardRule, Finish, JobState, Keep, NewJob, Output, Rules, Transition, Unique, WorkerId,
};

use crate::bench::*;
use crate::fixture::{Act, Fixture};
use crate::limiting;
use crate::transacting::of_batch;

use JobState::{Cancelled, Completed, Discarded, Held, Retrying, Running, Scheduled};

async fn claimed_all<F: Fixture>(f: &F, worker: WorkerId, jobs: Vec<NewJob>) -> Vec<ClaimedJob> {
    let enqueued = enqueue_all(f, jobs).await;
    let mut jobs = claim(f.database(), worker, enqueued.len()).await;
    jobs.sort_by_key(|job| job.lease.job);
    assert_eq!(ids(&jobs), enqueued);
    jobs
}

async fn states<F: Fixture>(f: &F, jobs: &[ClaimedJob]) -> Vec<JobState> {
    let mut states = Vec::new();
    for job in jobs {
        states.push(state(f.database(), job.lease.job).await);
    }
    states
}

pub(crate) async fn the_jobs_end_each_in_its_way_with_the_effects<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let rule = DiscardRule {
        kind: "a".to_owned(),
        enqueues: "alert".to_owned(),
        queue: "alerts".to_owned(),
        priority: 0,
        max_attempts: 1,
        args: "{}".to_owned(),
        argument: "discarded".to_owned(),
        rules: Rules::default(),
        expires: None,
    };
    db.storage.declare_discard_rules(&["a".to_owned()], &[rule]).await.unwrap();
    let mut alerts = 0;
    for provided in F::provided() {
        let jobs = claimed_all(&f, worker, vec![job(); 6]).await;
        let with_output = Transition::CompleteWith(Keep::For(HOUR), Output::new("x"));
        let transitions = vec![DONE, with_output, retry_in(HOUR), Transition::Snooze(HOUR), cancel(), discard()];
        let act = Act::of_batch(provided.0, Ok(transitions.clone()));
        let ended = db.storage.transact(of_batch(&provided, &jobs, act)).await;
        assert!(
            matches!(&ended, Transacted::Committed(written) if *written == transitions),
            "{}: {ended:?}",
            provided.0
        );
        assert_eq!(states(&f, &jobs).await, [Completed, Completed, Retrying, Scheduled, Cancelled, Discarded]);
        assert_eq!(effects(&f, provided.0).await, 1);
        let output = db.operator.end(jobs[1].lease.job).await.unwrap().unwrap().output;
        assert_eq!(output.unwrap().json(), Some("\"x\""));
        assert_eq!(failures(db, jobs[2].lease.job).await[0].message, "it did not work");
        assert_eq!(failures(db, jobs[5].lease.job).await[0].message, "it never works");
        alerts += 1;
        let enqueued = format!("select count(*) as number from {} where kind = 'alert'", F::VIEW);
        assert_eq!(f.client().await.number(&enqueued).await, alerts, "the rule for the discarded job was applied");
    }
}

pub(crate) async fn many_jobs_complete_at_once<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for keep in [Keep::For(HOUR), Keep::Nothing] {
        for provided in F::provided() {
            let jobs = claimed_all(&f, worker, vec![job(); 100]).await;
            let before = effects(&f, provided.0).await;
            let act = Act::of_batch(provided.0, Ok(vec![Transition::Complete(keep); 100]));
            let ended = db.storage.transact(of_batch(&provided, &jobs, act)).await;
            assert!(matches!(ended, Transacted::Committed(_)), "{}: {ended:?}", provided.0);
            assert_eq!(effects(&f, provided.0).await, before + 1);
            assert_eq!(db.storage.leases(worker, None).await.unwrap().valid, []);
        }
    }
}

pub(crate) async fn one_lost_lease_rolls_all_of_them_back<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for provided in F::provided() {
        let jobs = claimed_all(&f, worker, vec![job(); 3]).await;
        assert!(finish(db, &jobs[1], Transition::Release).await);
        for transitions in [vec![DONE; 3], vec![DONE, discard(), DONE], vec![retry_in(HOUR); 3]] {
            let ended =
                db.storage.transact(of_batch(&provided, &jobs, Act::of_batch(provided.0, Ok(transitions)))).await;
            assert!(matches!(ended, Transacted::LeaseLost), "{}: {ended:?}", provided.0);
            assert_eq!(states(&f, &jobs).await, [Running, JobState::Available, Running]);
            assert_eq!(effects(&f, provided.0).await, 0);
            assert!(failures(db, jobs[0].lease.job).await.is_empty());
        }
        let again = claim(db, worker, 1).await.remove(0);
        let finishes = [&jobs[0], &again, &jobs[2]].map(|job| Finish::new(job, DONE));
        assert_eq!(db.storage.finish_all(&finishes).await.unwrap().len(), 3, "the other leases stand");
    }
}

pub(crate) async fn an_error_leaves_all_leases<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for provided in F::provided() {
        let jobs = claimed_all(&f, worker, vec![job(); 3]).await;
        for answer in [Err("no money"), Ok(vec![DONE; 2])] {
            let ended = db.storage.transact(of_batch(&provided, &jobs, Act::of_batch(provided.0, answer))).await;
            assert!(matches!(ended, Transacted::RolledBack(_)), "{}: {ended:?}", provided.0);
            assert_eq!((effects(&f, provided.0).await, states(&f, &jobs).await), (0, vec![Running; 3]));
        }
        for job in jobs {
            assert!(finish(db, &job, DONE).await);
        }
    }
}

/// One job has a limit, one is in a sequence, one is unique and one is none of these.
pub(crate) async fn permits_and_keys_are_given_back_in_the_transaction<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let permits = format!("select count(*) as number from {}", F::table("permit"));
    let keys = format!("select count(*) as number from {}", F::table("unique_key"));
    for second in [DONE, discard(), Transition::Snooze(HOUR), retry_in(HOUR), Transition::Complete(Keep::Nothing)] {
        for provided in F::provided() {
            let unique = job().unique(Unique::new()).unwrap();
            let new = vec![limiting::limited("x"), limiting::limited("y"), unique, job()];
            enqueue_all(&f, new).await;
            assert_eq!(limiting::admit(db).await, 2);
            let jobs = claim(db, worker, 9).await;
            assert_eq!(jobs.len(), 4);
            let mut client = f.client().await;
            assert_eq!((client.number(&permits).await, client.number(&keys).await), (2, 1));
            let before = effects(&f, provided.0).await;
            let ended =
                db.storage.transact(of_batch(&provided, &jobs, Act::of_batch(provided.0, Err("rolled back")))).await;
            assert!(matches!(ended, Transacted::RolledBack(_)), "{}: {ended:?}", provided.0);
            assert_eq!((client.number(&permits).await, client.number(&keys).await), (2, 1), "nothing was given back");
            let mut transitions = vec![DONE; 4];
            let limited = jobs.iter().position(|job| job.flags.is_limited()).expect("two have a limit");
            transitions[limited] = second.clone();
            let ended =
                db.storage.transact(of_batch(&provided, &jobs, Act::of_batch(provided.0, Ok(transitions)))).await;
            assert!(matches!(ended, Transacted::Committed(_)), "{}, {second:?}: {ended:?}", provided.0);
            assert_eq!(effects(&f, provided.0).await, before + 1);
            assert_eq!(
                (client.number(&permits).await, client.number(&keys).await),
                (0, 0),
                "{}, {second:?}",
                provided.0
            );
            if matches!(second, Transition::Snooze(_) | Transition::Retry { .. }) {
                let state = state(db, jobs[limited].lease.job).await;
                assert!(matches!(state, Held | Scheduled | Retrying), "it waits for its time and its limit: {state:?}");
            }
        }
    }
}
