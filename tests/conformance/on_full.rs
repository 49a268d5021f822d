//! Jobs that do not wait if their limit is full: they are discarded, or the oldest jobs of their key are cancelled.

use std::time::Duration;

use diesel_jobs_core::storage::{Action, Claim, EndedWaiting, Operated, WaitEnd};
use diesel_jobs_core::{JobId, JobState, Limit, NewJob, OnFull, Rate, Retention, Transition, Unique};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::discarding::rule;
use crate::examining::{none, one};
use crate::fixture::Fixture;
use crate::limiting::{admit, check};

use JobState::{Available, Cancelled, Completed, Discarded, Held, Running, Scheduled};

const KEPT: Retention = Retention { completed: HOUR, cancelled: HOUR, discarded: HOUR };

/// A job with this key, of which two may run at once.
fn of(key: &str, on_full: OnFull) -> NewJob {
    job().rule(Limit::new("stripe", 2).key(key).on_full(on_full)).unwrap()
}

fn hasty() -> NewJob {
    of("x", OnFull::Discard)
}

fn newest() -> NewJob {
    of("x", OnFull::CancelOldest)
}

fn patient() -> NewJob {
    of("x", OnFull::Wait)
}

async fn end_full(db: &Database) -> Vec<EndedWaiting> {
    db.storage.end_waiting(WaitEnd::LimitFull, KEPT).await.unwrap().ended
}

/// What the admitter does: a pass, and then the end of jobs that find their limit full. Returns how many were admitted,
/// and how many ended.
async fn pass(db: &Database) -> (usize, usize) {
    pass_with(db, false).await
}

async fn sweep(db: &Database) -> (usize, usize) {
    pass_with(db, true).await
}

async fn pass_with(db: &Database, sweeps: bool) -> (usize, usize) {
    let found = db.storage.admit(sweeps).await.unwrap();
    (found.admitted, if found.may_be_full { end_full(db).await.len() } else { 0 })
}

async fn states(db: &Database, ids: &[JobId]) -> Vec<JobState> {
    let mut states = Vec::new();
    for id in ids {
        states.push(state(db, *id).await);
    }
    states
}

async fn reason(db: &Database, id: JobId) -> String {
    let failures = failures(db, id).await;
    assert_eq!((failures.len(), &failures[0].actor), (1, &None));
    failures[0].message.clone()
}

async fn let_pass<F: Fixture>(f: &F, time: Duration) {
    f.client().await.execute(&F::passed(time)).await.unwrap();
}

pub(crate) async fn a_job_that_finds_its_limit_full_is_discarded<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let first = client.enqueue(hasty()).await.unwrap();
        let ids = client.enqueue_all(vec![hasty(), patient(), hasty(), of("y", OnFull::Discard), job()]).await.unwrap();
        let found = db.storage.admit(false).await.unwrap();
        assert!(found.may_be_full, "{name}");
        assert_eq!(found.admitted, 3, "{name}");
        let one = EndedWaiting { queue: "default".to_owned(), kind: "a".to_owned(), state: Discarded };
        assert_eq!(end_full(db).await, [one], "{name}");
        assert_eq!(state(db, first).await, Available, "{name}");
        assert_eq!(states(db, &ids).await, [Available, Held, Discarded, Available, Available], "{name}");
        assert_eq!(reason(db, ids[2]).await, "its limit `stripe` was full", "{name}");
        assert_eq!(record(db, ids[2]).await.attempt, 0);
        check(&f).await;
        assert_eq!(pass(db).await, (0, 0), "{name}");
        for job in claim(db, worker, 9).await {
            assert!(finish(db, &job, DONE).await, "{name}");
        }
        // The job that waits comes first.
        let ids = client.enqueue_all(vec![hasty(), hasty()]).await.unwrap();
        assert_eq!(pass(db).await, (2, 1), "{name}");
        assert_eq!(states(db, &ids).await, [Available, Discarded], "{name}");
        for job in claim(db, worker, 9).await {
            assert!(finish(db, &job, DONE).await, "{name}");
        }
        assert!(!db.storage.admit(true).await.unwrap().may_be_full, "{name}");
    }
}

pub(crate) async fn the_decision_leaves_what_a_pass_would_admit<F: Fixture>(f: F) {
    let db = f.database();
    let mut elsewhere = hasty();
    elsewhere.queue = "paused".into();
    db.operator.pause_queue("paused", "ann", None).await.unwrap();
    let mut urgent = hasty();
    urgent.priority = 9;
    let ids = enqueue_all(&f, vec![elsewhere.clone(), hasty(), hasty(), urgent, elsewhere]).await;
    // No pass has looked yet, as if a permit was freed after one, and all of these jobs came after it.
    assert_eq!(end_full(db).await.len(), 1);
    assert_eq!(states(db, &ids).await, [Held, Held, Discarded, Held, Held]);
    assert_eq!(pass(db).await, (2, 0));
    assert_eq!(states(db, &ids).await, [Held, Available, Discarded, Available, Held]);
    check(&f).await;
}

pub(crate) async fn a_job_that_has_started_waits<F: Fixture>(f: F) {
    let db = f.database();
    let mut first = patient();
    first.priority = 9;
    for transition in [retry_in(Duration::ZERO), Transition::Snooze(Duration::ZERO)] {
        for rule in [OnFull::Discard, OnFull::CancelOldest] {
            let id = enqueue(&f, of("x", rule)).await;
            assert_eq!(pass(db).await, (1, 0));
            let job = claim(db, worker(db).await, 1).await.remove(0);
            let others = enqueue_all(&f, vec![first.clone(); 2]).await;
            assert!(finish(db, &job, transition.clone()).await);
            assert_eq!(pass(db).await, (2, 0), "{rule:?}");
            assert_eq!((state(db, id).await, others.len()), (Held, 2), "{rule:?}");
            for job in claim(db, worker(db).await, 9).await {
                assert!(finish(db, &job, DONE).await);
            }
            assert_eq!(pass(db).await, (1, 0), "{rule:?}");
            for job in claim(db, worker(db).await, 9).await {
                assert!(finish(db, &job, DONE).await);
            }
        }
    }
}

pub(crate) async fn an_operator_runs_a_discarded_job<F: Fixture>(f: F) {
    let db = f.database();
    let ids = enqueue_all(&f, vec![hasty(); 3]).await;
    assert_eq!(pass(db).await, (2, 1));
    let act = async |action: Action| db.operator.act(&action, &[ids[2]], "ann").await.unwrap()[0];
    let Operated::Enqueued(new) = act(Action::Rerun).await else { panic!("it is not enqueued anew") };
    assert_eq!(act(Action::Retry).await, Operated::Done);
    assert_eq!(pass(db).await, (0, 1), "the job that is enqueued anew does not wait");
    assert_eq!(states(db, &[ids[2], new]).await, [Held, Discarded]);
}

pub(crate) async fn paused_and_later_jobs_are_not_looked_at<F: Fixture>(f: F) {
    let db = f.database();
    enqueue_all(&f, vec![patient(); 2]).await;
    let mut later = hasty();
    later.run_at = diesel_jobs_core::RunAt::After(HOUR);
    let mut elsewhere = hasty();
    elsewhere.queue = "paused".into();
    db.operator.pause_queue("paused", "ann", None).await.unwrap();
    let ids = enqueue_all(&f, vec![later, elsewhere]).await;
    assert_eq!(pass(db).await, (2, 0));
    assert_eq!(sweep(db).await, (0, 0));
    assert_eq!(states(db, &ids).await, [Scheduled, Held]);
    db.operator.resume_queue("paused", "ann").await.unwrap();
    assert_eq!(sweep(db).await, (0, 1));
    assert_eq!(states(db, &ids).await, [Scheduled, Discarded]);
    let_pass(&f, 2 * HOUR).await;
    assert_eq!(sweep(db).await, (0, 1));
    assert_eq!(states(db, &ids).await, [Discarded, Discarded]);
}

pub(crate) async fn a_job_that_finds_no_token_is_discarded<F: Fixture>(f: F) {
    let db = f.database();
    let rated = |on_full| job().rule(Rate::new("stripe", 1, HOUR).burst(3).key("x").on_full(on_full)).unwrap();
    let ids = enqueue_all(&f, vec![rated(OnFull::Discard); 5]).await;
    let waits = enqueue(&f, rated(OnFull::Wait)).await;
    // A limit with the same name and key is another one.
    enqueue_all(&f, vec![hasty(); 2]).await;
    assert_eq!(end_full(db).await.len(), 2);
    assert_eq!(pass(db).await, (5, 0));
    assert_eq!(states(db, &ids).await, [Available, Available, Available, Discarded, Discarded]);
    assert_eq!(state(db, waits).await, Held);
    assert_eq!(reason(db, ids[4]).await, "its limit `stripe` was full");
    let_pass(&f, 2 * HOUR).await;
    // One token is for the job that waits.
    let ids = enqueue_all(&f, vec![rated(OnFull::Discard); 2]).await;
    assert_eq!(end_full(db).await.len(), 1, "tokens have come since the last pass");
    assert_eq!(pass(db).await, (2, 0));
    assert_eq!(states(db, &ids).await, [Available, Discarded]);
    assert_eq!(state(db, waits).await, Available);
}

pub(crate) async fn the_newest_jobs_of_a_key_run<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let other = enqueue_all(&f, vec![of("y", OnFull::CancelOldest); 2]).await;
    let old = enqueue_all(&f, vec![newest(); 2]).await;
    assert_eq!(pass(db).await, (4, 0));
    let jobs = claim(db, worker, 9).await;
    assert_eq!(jobs.len(), 4);
    let new = enqueue(&f, newest()).await;
    assert_eq!(pass(db).await, (0, 1), "the oldest is cancelled");
    assert_eq!(pass(db).await, (1, 0), "its permit is free");
    assert_eq!(states(db, &[old[0], old[1], new]).await, [Cancelled, Running, Available]);
    assert_eq!(reason(db, old[0]).await, "its limit `stripe` was full, and newer jobs took its place");
    let cancelled = jobs.iter().find(|job| job.lease.job == old[0]).unwrap();
    assert!(!finish(db, cancelled, DONE).await, "its attempt has lost the lease");
    let cancelled = db.storage.cancelled(&old).await.unwrap();
    assert_eq!(cancelled.iter().map(|one| (one.job, one.by.clone())).collect::<Vec<_>>(), [(old[0], None)]);
    check(&f).await;
    // More at once than the limit allows: of these, too, the oldest are cancelled. One of them runs, one is available,
    // and one is held.
    let newer = enqueue_all(&f, vec![newest(); 3]).await;
    assert_eq!(pass(db).await, (0, 3));
    assert_eq!(pass(db).await, (2, 0));
    assert_eq!(states(db, &[old[1], new]).await, [Cancelled, Cancelled]);
    assert_eq!(states(db, &newer).await, [Cancelled, Available, Available]);
    assert_eq!(states(db, &other).await, [Running, Running]);
    check(&f).await;
    assert_eq!(pass(db).await, (0, 0));
}

pub(crate) async fn jobs_that_have_another_rule_are_not_cancelled<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let first = enqueue_all(&f, vec![newest(), patient(), patient()]).await;
    assert_eq!(pass(db).await, (2, 0));
    let jobs = claim(db, worker, 9).await;
    let one = enqueue(&f, newest()).await;
    assert_eq!(pass(db).await, (0, 1));
    assert_eq!(states(db, &first).await, [Cancelled, Running, Held]);
    assert_eq!(pass(db).await, (1, 0), "the job that waits comes before the new one");
    let other = enqueue(&f, newest()).await;
    assert_eq!(pass(db).await, (0, 1), "only one of them waits");
    assert_eq!(states(db, &[one, other]).await, [Cancelled, Held]);
    assert_eq!(pass(db).await, (0, 0));
    for job in &jobs {
        finish(db, job, DONE).await;
    }
    assert_eq!(pass(db).await, (1, 0));
    assert_eq!(states(db, &[first[1], first[2], other]).await, [Completed, Available, Available]);
    check(&f).await;
}

pub(crate) async fn a_waiting_retry_is_cancelled_like_the_oldest<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let old = enqueue_all(&f, vec![newest(); 2]).await;
    assert_eq!(pass(db).await, (2, 0));
    let jobs = claim(db, worker, 9).await;
    let mut urgent = newest();
    urgent.priority = 9;
    enqueue_all(&f, vec![urgent.clone()]).await;
    let retried = jobs.iter().find(|job| job.lease.job == old[0]).unwrap();
    assert!(finish(db, retried, retry_in(Duration::ZERO)).await);
    assert_eq!(pass(db).await, (1, 0), "a retry cancels nothing");
    let new = enqueue(&f, urgent).await;
    assert_eq!(pass(db).await, (0, 2));
    assert_eq!(states(db, &old).await, [Cancelled, Cancelled]);
    assert_eq!(pass(db).await, (1, 0));
    assert_eq!(state(db, new).await, Available);
}

pub(crate) async fn what_an_operator_has_set_counts<F: Fixture>(f: F) {
    let db = f.database();
    let set = async |most| assert!(db.operator.set_limit("stripe", most, "ann", None).await.unwrap());
    set(3).await;
    let ids = enqueue_all(&f, vec![hasty(); 4]).await;
    assert_eq!(pass(db).await, (3, 1));
    assert_eq!(state(db, ids[3]).await, Discarded);
    let others = enqueue_all(&f, vec![of("y", OnFull::CancelOldest); 3]).await;
    assert_eq!(pass(db).await, (3, 0));
    set(1).await;
    assert_eq!(pass(db).await, (0, 0), "a lower number ends no job");
    let new = enqueue(&f, of("y", OnFull::CancelOldest)).await;
    assert_eq!(pass(db).await, (0, 3));
    assert_eq!(pass(db).await, (1, 0));
    assert_eq!(states(db, &others).await, [Cancelled; 3]);
    set(0).await;
    let none = enqueue_all(&f, vec![of("z", OnFull::Discard), of("y", OnFull::CancelOldest)]).await;
    assert_eq!(pass(db).await, (0, 2));
    assert_eq!(states(db, &[new, none[0], none[1]]).await, [Cancelled, Discarded, Held]);
}

pub(crate) async fn a_discarded_job_is_followed_and_frees_its_key<F: Fixture>(f: F) {
    let db = f.database();
    db.storage.declare_discard_rules(&["a".to_owned()], &[rule()]).await.unwrap();
    enqueue_all(&f, vec![patient(); 2]).await;
    let id = enqueue(&f, hasty().unique(Unique::new()).unwrap()).await;
    assert_eq!(pass(db).await, (2, 1));
    let worker = worker(db).await;
    let jobs = claim(db, worker, 9).await;
    let follower = jobs.iter().find(|job| job.kind == "b").unwrap();
    let args = String::from_utf8(follower.args.to_vec()).unwrap();
    assert!(args.contains(&format!("\"id\":{id}")) || args.contains(&format!("\"id\" : {id}")), "{args}");
    assert!(args.contains("its limit `stripe` was full"), "{args}");
    let expires = record(db, id).await;
    assert!(expires.finished_at.is_some());
    assert_ne!(enqueue(&f, hasty().unique(Unique::new()).unwrap()).await, id);
}

/// Lets an error meet jobs of the kind `refused` when they end, and the repair.
pub(crate) fn refusing<F: Fixture>() -> (&'static str, &'static str) {
    match F::TABLES.contains(&"ready") {
        true => (
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now' using errcode = '55000'; end $$;
             create trigger refuse before insert on jobs.finished for each row when (new.kind = 'refused') execute function refuse()",
            "drop trigger refuse on jobs.finished",
        ),
        false => (
            "create trigger refuse before update of state on jobs_job when new.kind = 'refused' and new.state not in ('available', 'running')
             begin select raise(abort, 'not now'); end",
            "drop trigger refuse",
        ),
    }
}

/// The same job of the kind `refused`.
pub(crate) fn refused(mut job: NewJob) -> NewJob {
    job.kind = "refused".into();
    job
}

/// What is refused now is tried again only after most of a minute, so that it does not matter how long a test takes.
pub(crate) async fn put_off<F: Fixture>(f: &F) {
    let put_off = match F::TABLES.contains(&"ready") {
        true => "update jobs.admission_failure set next_at = next_at + interval '50 seconds'",
        false => "update jobs_admission_failure set next_at = next_at + 50000000",
    };
    f.client().await.execute(put_off).await.unwrap();
}

/// The doctor says how often this job did not end.
pub(crate) async fn check_finding(db: &Database, id: JobId, times: usize) {
    let finding = one(db, "admission").await;
    let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    let what = format!("the end of job {id} (refused) in queue `default` has failed {times} since ");
    assert!(finding.what.starts_with(&what) && finding.what.ends_with("not now"), "{finding:?}");
    assert!(finding.repair.starts_with("remove the cause: a worker tries it again at "), "{finding:?}");
}

pub(crate) async fn a_job_that_is_not_discarded_stops_no_other<F: Fixture>(f: F) {
    let db = f.database();
    let (refuse, repair) = refusing::<F>();
    f.client().await.execute(refuse).await.unwrap();
    let token = || job().rule(Rate::new("token", 1, HOUR).burst(1).on_full(OnFull::Discard)).unwrap();
    let jobs = vec![hasty(), hasty(), refused(hasty()), hasty(), hasty()];
    let ids = enqueue_all(&f, [jobs, vec![of("y", OnFull::Discard); 3], vec![token(); 2]].concat()).await;
    assert_eq!(admit(db).await, 5);
    let ends = db.storage.end_waiting(WaitEnd::LimitFull, KEPT).await.unwrap();
    put_off(&f).await;
    assert_eq!(ends.ended.len(), 4);
    let [reason] = &ends.refused[..] else { panic!("{ends:?}") };
    assert!(
        reason.starts_with(&format!("job {} of kind `refused` in queue `default` did not end: ", ids[2])),
        "{ends:?}"
    );
    assert!(reason.ends_with("not now"), "{ends:?}");
    assert_eq!(states(db, &ids[2..5]).await, [Held, Discarded, Discarded]);
    assert_eq!((state(db, ids[7]).await, state(db, ids[9]).await), (Discarded, Discarded));
    // It is not tried in each pass, and others come and go meanwhile.
    enqueue(&f, hasty()).await;
    let ends = db.storage.end_waiting(WaitEnd::LimitFull, KEPT).await.unwrap();
    assert_eq!((ends.ended.len(), ends.refused.len()), (1, 0));
    assert_eq!(db.storage.admit(true).await.unwrap().failures, Some(0), "admission has not failed");
    check_finding(db, ids[2], 1).await;
    let_pass(&f, MINUTE).await;
    assert_eq!(end_full(db).await.len(), 0);
    check_finding(db, ids[2], 2).await;
    f.client().await.execute(repair).await.unwrap();
    let_pass(&f, MINUTE).await;
    assert_eq!(end_full(db).await.len(), 1);
    assert_eq!(state(db, ids[2]).await, Discarded);
    none(db, "admission").await;
}

/// The oldest job of one key waits, and that of another runs.
pub(crate) async fn a_job_that_is_not_cancelled_stops_no_other<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let (refuse, repair) = refusing::<F>();
    f.client().await.execute(refuse).await.unwrap();
    let of = |key: &str| of(key, OnFull::CancelOldest);
    let old = enqueue_all(&f, vec![refused(of("x")), of("x"), of("y"), of("y")]).await;
    assert_eq!(admit(db).await, 4);
    let of_kind = Claim { kinds: ["refused".to_owned()].into(), ..wants(worker, &[("default", 1)]) };
    assert_eq!(ids(&db.storage.claim(&of_kind).await.unwrap()), old[..1]);
    let new = enqueue_all(&f, vec![of("x"), of("x"), of("y")]).await;
    assert_eq!(pass(db).await, (0, 2));
    put_off(&f).await;
    assert_eq!(states(db, &old).await, [Running, Cancelled, Cancelled, Available]);
    assert_eq!(pass(db).await, (2, 0));
    assert_eq!(states(db, &new).await, [Available, Held, Available], "the job that did not end keeps its permit");
    check_finding(db, old[0], 1).await;
    f.client().await.execute(repair).await.unwrap();
    let_pass(&f, MINUTE).await;
    assert_eq!(pass(db).await, (0, 1));
    assert_eq!(pass(db).await, (1, 0));
    assert_eq!(states(db, &old).await[0], Cancelled);
    none(db, "admission").await;
    check(&f).await;
}

/// The database refuses the reason for which a job ends.
pub(crate) async fn a_reason_that_is_refused_stops_no_other<F: Fixture>(f: F) {
    let db = f.database();
    let jobs = vec![hasty(), hasty(), refused(hasty()), hasty()];
    let ids = enqueue_all(&f, jobs).await;
    let table = F::table("job_error");
    let refuse = match F::TABLES.contains(&"ready") {
        true => format!(
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
             create trigger refuse before insert on {table} for each row when (new.job_id = {}) execute function refuse()",
            ids[2]
        ),
        false => format!(
            "create trigger refuse before insert on {table} when new.job_id = {} begin select raise(abort, 'not now'); end",
            ids[2]
        ),
    };
    f.client().await.execute(&refuse).await.unwrap();
    assert_eq!(pass(db).await, (2, 1));
    put_off(&f).await;
    assert_eq!(states(db, &ids[2..]).await, [Held, Discarded]);
    assert_eq!(failures(db, ids[2]).await.len(), 0);
    check_finding(db, ids[2], 1).await;
    check(&f).await;
}

pub(crate) async fn nothing_ends_while_the_database_is_frozen<F: Fixture>(f: F) {
    let db = f.database();
    let ids = enqueue_all(&f, vec![hasty(), hasty(), hasty()]).await;
    db.operator.freeze("cy", "restore").await.unwrap();
    assert!(!db.storage.admit(true).await.unwrap().may_be_full);
    assert!(end_full(db).await.is_empty());
    db.operator.thaw("cy").await.unwrap();
    assert_eq!(pass(db).await, (2, 1));
    assert_eq!(state(db, ids[2]).await, Discarded);
}

pub(crate) async fn two_may_decide_at_once<F: Fixture>(f: F) {
    let db = f.database();
    let keys: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    for rule in [OnFull::Discard, OnFull::CancelOldest] {
        let jobs = keys.iter().flat_map(|key| vec![of(&format!("{key} {rule:?}"), rule); 5]).collect();
        let ids = enqueue_all(&f, jobs).await;
        let (one, _, other, last) = tokio::join!(end_full(db), admit_or_busy(db), end_full(db), end_full(db));
        assert_eq!(one.len() + other.len() + last.len() + end_full(db).await.len(), 60, "{rule:?}");
        while admit(db).await > 0 {}
        let mut started = 0;
        for id in ids {
            started += usize::from(state(db, id).await == Available);
        }
        assert_eq!(started, 40, "{rule:?}");
        check(&f).await;
    }
}

async fn admit_or_busy(db: &Database) {
    db.storage.admit(false).await.unwrap();
}

pub(crate) async fn why_says_what_happens_if_it_is_full<F: Fixture>(f: F) {
    let db = f.database();
    let ids = enqueue_all(&f, vec![hasty(); 3]).await;
    admit(db).await;
    let why = db.operator.why(ids[2]).await.unwrap();
    assert!(why.reasons.iter().any(|reason| reason.text.contains("a job that finds it full is discarded")), "{why:?}");
    assert_eq!(end_full(db).await.len(), 1);
    let why = db.operator.why(ids[2]).await.unwrap();
    assert!(why.reasons[0].text.contains("its limit `stripe` was full"), "{why:?}");
}
