//! Several limits of one job: it starts when all of them allow it, and takes nothing before.

use std::time::Duration;

use diesel_jobs_core::storage::{Action, Explained, Operated, Reason};
use diesel_jobs_core::{
    ClaimedJob, JobId, JobState, Limit, NewJob, OnConflict, OnDiscard, OwnRule, Rate, Replace, Sequence, Transition,
    Unique, WorkerId,
};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::Fixture;
use crate::limiting::admit;

use JobState::{Available, Held};

/// A limit of the account, and one that all accounts share.
fn both(account: &str) -> NewJob {
    job().rule(Limit::new("account", 2).key(account)).unwrap().rule(Limit::new("stripe", 3)).unwrap()
}

fn alone(name: &str, most: u32) -> NewJob {
    job().rule(Limit::new(name, most)).unwrap()
}

fn ordered(order: &str, on_discard: OnDiscard) -> NewJob {
    let sequence = Sequence::new("orders").key(order).on_discard(on_discard);
    job().rule(Limit::new("stripe", 3)).unwrap().rule(sequence).unwrap()
}

/// A token in ten minutes, and two at once.
fn rated() -> Rate {
    Rate::new("calls", 6, HOUR).burst(2)
}

async fn states(db: &Database, ids: &[JobId]) -> Vec<JobState> {
    let mut states = Vec::new();
    for id in ids {
        states.push(state(db, *id).await);
    }
    states
}

/// The permits, as `name:number`.
async fn permits<F: Fixture>(f: &F) -> Vec<(String, i64)> {
    let mut client = f.client().await;
    let mut found = Vec::new();
    for name in ["account", "orders", "stripe"] {
        let sql = format!("select count(*) as number from {} where limit_name = '{name}'", F::table("permit"));
        let number = client.number(&sql).await;
        if number > 0 {
            found.push((name.to_owned(), number));
        }
    }
    let (all, known) =
        (format!("select count(*) as number from {}", F::table("permit")), found.iter().map(|permit| permit.1));
    assert_eq!(client.number(&all).await, known.sum::<i64>(), "no other name has a permit");
    found
}

fn named(permits: &[(&str, i64)]) -> Vec<(String, i64)> {
    permits.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

/// Passes until nothing more starts. Fails if they do not end.
async fn settle(db: &Database) -> usize {
    let mut admitted = 0;
    for _ in 0..20 {
        let found = db.storage.admit(false).await.unwrap();
        admitted += found.admitted;
        if found.admitted == 0 && !found.more {
            return admitted;
        }
    }
    panic!("passes of admission do not end");
}

async fn why(db: &Database, id: JobId) -> Explained {
    let why = db.operator.why(id).await.unwrap();
    why.reasons.into_iter().find(|reason| matches!(reason.reason, Reason::Held(_))).unwrap()
}

async fn only(db: &Database, worker: WorkerId) -> ClaimedJob {
    let mut jobs = claim(db, worker, 9).await;
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

pub(crate) async fn a_job_starts_when_all_its_limits_allow_it<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let ids = client.enqueue_all(vec![both("x"), both("x"), both("x"), both("y"), both("y")]).await.unwrap();
        assert_eq!(states(db, &ids).await, [Held; 5], "{name}");
        assert_eq!(settle(db).await, 3, "{name}");
        assert_eq!(states(db, &ids).await, [Available, Available, Held, Available, Held], "{name}");
        assert_eq!(permits(&f).await, named(&[("account", 3), ("stripe", 3)]), "{name}");
        let jobs = claim(db, worker, 9).await;
        assert_eq!(jobs.len(), 3, "{name}");
        let y = jobs.iter().find(|job| job.lease.job == ids[3]).unwrap();
        assert!(finish(db, y, DONE).await);
        assert_eq!(settle(db).await, 1, "{name}: the account x is full");
        assert_eq!(states(db, &ids[2..]).await, [Held, JobState::Completed, Available], "{name}");
        for job in jobs.iter().filter(|job| job.lease.job != ids[3]) {
            assert!(finish(db, job, DONE).await);
        }
        assert_eq!(settle(db).await, 1, "{name}");
        for job in claim(db, worker, 9).await {
            assert!(finish(db, &job, Transition::Complete(diesel_jobs_core::Keep::Nothing)).await);
        }
        assert_eq!(permits(&f).await, [], "{name}");
        assert_eq!(settle(db).await, 0, "{name}");
    }
}

pub(crate) async fn a_job_that_waits_has_no_permit_of_any_limit<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let full = enqueue_all(&f, vec![alone("stripe", 3); 3]).await;
    assert_eq!(settle(db).await, 3);
    let waiting = enqueue_all(&f, vec![both("x"); 4]).await;
    assert_eq!(settle(db).await, 0);
    assert_eq!(permits(&f).await, named(&[("stripe", 3)]));
    // The account is free for a job that needs nothing else, although it comes later.
    let other = enqueue(&f, job().rule(Limit::new("account", 2).key("x")).unwrap()).await;
    assert_eq!(settle(db).await, 1);
    assert_eq!(state(db, other).await, Available);
    for job in claim(db, worker, 9).await.iter().filter(|job| full.contains(&job.lease.job)) {
        assert!(finish(db, job, DONE).await);
    }
    assert_eq!(settle(db).await, 1, "the other job has one of the two permits of the account");
    assert_eq!(states(db, &waiting).await, [Available, Held, Held, Held]);
    assert_eq!(permits(&f).await, named(&[("account", 2), ("stripe", 1)]));
}

pub(crate) async fn limits_in_any_order_do_not_lock_each_other<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let of = |one: &str, other: &str| job().rule(Limit::new(one, 1)).unwrap().rule(Limit::new(other, 1)).unwrap();
    let jobs = (0..12).map(|number| match number % 3 {
        0 => of("account", "stripe"),
        1 => of("stripe", "orders"),
        _ => of("orders", "account"),
    });
    enqueue_all(&f, jobs.collect()).await;
    for _ in 0..12 {
        assert_eq!(settle(db).await, 1);
        let job = only(db, worker).await;
        assert!(finish(db, &job, DONE).await);
    }
    assert_eq!((settle(db).await, permits(&f).await), (0, Vec::new()));
}

pub(crate) async fn every_end_gives_all_permits_back<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let ends = [DONE, discard(), cancel(), retry_in(HOUR), Transition::Snooze(HOUR)];
    for end in ends {
        let ids = enqueue_all(&f, vec![both("x"); 3]).await;
        assert_eq!(settle(db).await, 2, "{}", end.name());
        let jobs = claim(db, worker, 9).await;
        assert!(finish(db, &jobs[0], end.clone()).await);
        assert_eq!(permits(&f).await, named(&[("account", 1), ("stripe", 1)]), "{}", end.name());
        assert_eq!(settle(db).await, 1, "{}", end.name());
        assert_eq!(state(db, ids[2]).await, Available);
        assert!(finish(db, &jobs[1], end.clone()).await);
        let job = only(db, worker).await;
        assert!(finish(db, &job, end.clone()).await);
        assert_eq!(permits(&f).await, [], "{}", end.name());
    }
}

pub(crate) async fn a_retried_job_waits_for_all_its_limits_again<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let id = enqueue(&f, both("x")).await;
    assert_eq!(settle(db).await, 1);
    let job = only(db, worker).await;
    enqueue_all(&f, vec![alone("stripe", 3); 3]).await;
    assert_eq!(settle(db).await, 2);
    assert!(finish(db, &job, retry_in(Duration::ZERO)).await);
    assert_eq!(settle(db).await, 1, "a job that has waited for longer takes the permit");
    assert_eq!(state(db, id).await, Held);
    let other = claim(db, worker, 1).await.remove(0);
    assert!(finish(db, &other, DONE).await);
    assert_eq!(settle(db).await, 1);
    let again = claim(db, worker, 9).await.into_iter().find(|job| job.lease.job == id).unwrap();
    assert_eq!(again.attempt, 2);
    assert!(again.flags.is_limited());
    assert_eq!(permits(&f).await, named(&[("account", 1), ("stripe", 3)]));
}

pub(crate) async fn a_rescued_job_keeps_all_its_permits<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let mut once = both("x");
    once.max_attempts = 1;
    let ids = enqueue_all(&f, vec![once, both("x"), both("x")]).await;
    assert_eq!(settle(db).await, 2);
    assert_eq!(claim(db, dead, 2).await.len(), 2);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let rescued = rescue(db, POLICY).await;
    assert_eq!((rescued.returned, rescued.discarded), (vec![ids[1]], vec![ids[0]]));
    assert_eq!(permits(&f).await, named(&[("account", 1), ("stripe", 1)]));
    assert_eq!(settle(db).await, 1);
    assert_eq!(states(db, &ids).await, [JobState::Discarded, Available, Available]);
}

pub(crate) async fn a_full_limit_costs_one_look_however_many_jobs_wait<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue_all(&f, vec![alone("stripe", 1)]).await;
    assert_eq!(settle(db).await, 1);
    let of = |number: i32| {
        let account = Limit::new("account", 2).key(number % 3);
        job().rule(account).unwrap().rule(Limit::new("stripe", 1)).unwrap()
    };
    enqueue_all(&f, (0..300).map(of).collect()).await;
    assert_eq!(settle(db).await, 0);
    let flow = if F::TABLES.contains(&"ready") {
        "select limit_name from jobs.held"
    } else {
        "select limit_name from jobs_job where flags & 2"
    };
    let moved = format!("select count(*) as number from ({flow}) held where limit_name <> ''");
    assert_eq!(f.client().await.number(&moved).await, 3, "one job of each lane waits at the full limit");
    for _ in 0..30 {
        let job = only(db, worker).await;
        assert!(finish(db, &job, DONE).await);
        assert_eq!(settle(db).await, 1);
        assert!(f.client().await.number(&moved).await <= 3);
    }
}

/// Where a held job waits: the name of the rule, or nothing for its lane.
async fn place<F: Fixture>(f: &F, id: JobId) -> String {
    let held = if F::TABLES.contains(&"ready") { "jobs.held" } else { "jobs_job" };
    let mut client = f.client().await;
    for name in ["", "account", "calls", "orders", "stripe"] {
        let here = format!("select count(*) as number from {held} where id = {id} and limit_name = '{name}'");
        if client.number(&here).await > 0 {
            return name.to_owned();
        }
    }
    panic!("job {id} is not held")
}

/// A held job has other flags than an available one, which say where it waits. Passes without a sweep need the nudges
/// of its end.
pub(crate) async fn a_job_that_ends_while_it_waits_lets_the_next_one_move_up<F: Fixture>(f: F) {
    let db = f.database();
    let sequence = || Sequence::new("orders").key("x").on_discard(OnDiscard::Skip);
    let in_turn = |rule: OwnRule| job().rule(rule).unwrap().rule(sequence()).unwrap();
    let limit = || Limit::new("stripe", 1);
    let of_two = || job().rule(limit()).unwrap().rule(rated()).unwrap();
    // No token and no permit is left.
    let mut full = alone("stripe", 1);
    full.queue = "full".into();
    enqueue_all(&f, vec![full, job().rule(rated()).unwrap(), job().rule(rated()).unwrap()]).await;
    assert_eq!(settle(db).await, 3);
    for (what, of, waits_at) in [
        ("a rate after its turn", in_turn(rated().into()), "calls"),
        ("a limit after its turn", in_turn(limit().into()), "stripe"),
        ("one of two rules", of_two(), "stripe"),
        ("one of two rates", job().rule(rated()).unwrap().rule(Rate::new("others", 6, HOUR)).unwrap(), "calls"),
    ] {
        for action in [Action::Cancel, Action::Discard, Action::Delete] {
            let ids = enqueue_all(&f, vec![of.clone(); 2]).await;
            assert_eq!(settle(db).await, 0, "{what}");
            let behind = if of.rules[0].rule.on_discard().is_some() { "orders" } else { "" };
            assert_eq!((&*place(&f, ids[0]).await, &*place(&f, ids[1]).await), (waits_at, behind), "{what}");
            assert_eq!(db.operator.act(&action, &ids[..1], "ada").await.unwrap(), [Operated::Done]);
            for _ in 0..3 {
                db.storage.admit(false).await.unwrap();
            }
            assert_eq!(place(&f, ids[1]).await, waits_at, "{what}, {action:?}: without a sweep");
            assert_eq!(db.operator.act(&Action::Delete, &ids[1..], "ada").await.unwrap(), [Operated::Done]);
        }
    }
}

pub(crate) async fn a_job_keeps_its_turn_while_it_waits_for_its_limit<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let full = enqueue_all(&f, vec![alone("stripe", 3); 3]).await;
    assert_eq!(settle(db).await, 3);
    let ids = enqueue_all(&f, vec![ordered("x", OnDiscard::Halt); 3]).await;
    let single = enqueue(&f, job().rule(Sequence::new("orders").key("x")).unwrap()).await;
    assert_eq!(settle(db).await, 0, "the next jobs of the sequence wait, although one needs no permit of the limit");
    assert_eq!(permits(&f).await, named(&[("orders", 1), ("stripe", 3)]));
    for job in claim(db, worker, 9).await {
        assert!(full.contains(&job.lease.job) && finish(db, &job, DONE).await);
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        assert_eq!(settle(db).await, 1, "one after the other");
        let job = only(db, worker).await;
        // The turn stays through a retry, and the permit of the limit does not.
        assert!(finish(db, &job, retry_in(Duration::ZERO)).await);
        assert_eq!(permits(&f).await, named(&[("orders", 1)]));
        assert_eq!(settle(db).await, 1);
        let again = only(db, worker).await;
        assert_eq!((again.lease.job, again.attempt), (job.lease.job, 2));
        assert!(finish(db, &again, DONE).await);
        order.push(job.lease.job);
    }
    assert_eq!(order, [&ids[..], &[single]].concat());
    assert_eq!((settle(db).await, permits(&f).await), (0, Vec::new()));
}

pub(crate) async fn a_discarded_job_halts_its_sequence_and_frees_its_limit<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (on_discard, starts) in [(OnDiscard::Halt, 0), (OnDiscard::Skip, 1)] {
        let key = format!("{on_discard:?}");
        let ids = enqueue_all(&f, vec![ordered(&key, on_discard); 2]).await;
        assert_eq!(settle(db).await, 1);
        let job = only(db, worker).await;
        assert!(finish(db, &job, discard()).await);
        let halted = if starts == 0 { named(&[("orders", 1)]) } else { Vec::new() };
        assert_eq!(permits(&f).await, halted);
        assert_eq!(settle(db).await, starts);
        if starts == 0 {
            let answer = db.operator.act(&Action::Retry, &[ids[0]], "ann").await.unwrap();
            assert_eq!(answer, [Operated::Done]);
            assert_eq!(settle(db).await, 1);
            assert_eq!(db.operator.count_halted().await.unwrap().jobs, 0);
            let job = only(db, worker).await;
            assert_eq!(job.lease.job, ids[0]);
            assert!(finish(db, &job, DONE).await);
            assert_eq!(settle(db).await, 1);
        }
        let last = only(db, worker).await;
        assert!(last.lease.job == ids[1] && finish(db, &last, DONE).await);
        assert_eq!(permits(&f).await, []);
    }
}

pub(crate) async fn a_token_is_spent_when_the_job_starts<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let of = || alone("stripe", 1).rule(rated()).unwrap();
    let ids = enqueue_all(&f, vec![of(), of(), of(), of()]).await;
    assert_eq!(settle(db).await, 1);
    // While they wait for the limit, the second token is there for another job.
    let other = enqueue(&f, job().rule(rated()).unwrap()).await;
    assert_eq!(settle(db).await, 1);
    assert_eq!(state(db, other).await, Available);
    for job in claim(db, worker, 9).await {
        assert!(finish(db, &job, DONE).await);
    }
    assert_eq!(settle(db).await, 0, "there is a permit, and no token");
    assert!(db.storage.admit(false).await.unwrap().next_token.is_some());
    assert_eq!(permits(&f).await, [], "it waits for the token without a permit");
    let text = why(db, ids[1]).await.text;
    assert!(text.contains("rate `calls`") && text.contains("limit `stripe`, all jobs, has a free permit"), "{text}");
    for id in &ids[1..] {
        f.client().await.execute(&F::passed(10 * MINUTE)).await.unwrap();
        assert_eq!(settle(db).await, 1);
        let job = only(db, worker).await;
        assert_eq!(job.lease.job, *id);
        assert!(finish(db, &job, DONE).await);
    }
    // In a sequence, too.
    f.client().await.execute(&F::passed(HOUR)).await.unwrap();
    let of = || job().rule(rated()).unwrap().rule(Sequence::new("orders")).unwrap();
    let ids = enqueue_all(&f, vec![of(), of(), of()]).await;
    for id in &ids[..2] {
        assert_eq!(settle(db).await, 1);
        let job = only(db, worker).await;
        assert!(job.lease.job == *id && finish(db, &job, DONE).await);
    }
    assert_eq!(settle(db).await, 0, "no token is left");
    f.client().await.execute(&F::passed(10 * MINUTE)).await.unwrap();
    assert_eq!(settle(db).await, 1);
    assert_eq!(only(db, worker).await.lease.job, ids[2]);
}

pub(crate) async fn operators_set_each_limit_by_its_name<F: Fixture>(f: F) {
    let db = f.database();
    let ids = enqueue_all(&f, vec![both("x"); 5]).await;
    assert_eq!(settle(db).await, 2);
    assert!(db.operator.set_limit("account", 4, "ann", None).await.unwrap());
    assert_eq!(settle(db).await, 1, "the other limit is full now");
    let text = why(db, ids[3]).await.text;
    assert!(
        text.contains("limit `stripe`, all jobs, is full with 3 of 3")
            && text.contains("limit `account`, key [\"x\"], has a free permit: 3 of 4"),
        "{text}"
    );
    assert!(db.operator.set_limit("stripe", 10, "ann", None).await.unwrap());
    assert_eq!(settle(db).await, 1);
    let text = why(db, ids[4]).await.text;
    assert!(text.contains("limit `account`, key [\"x\"], is full with 4 of 4 ("), "{text}");
    assert!(db.operator.reset_limit("account", "ann").await.unwrap());
    assert_eq!(settle(db).await, 0);
}

pub(crate) async fn operators_act_on_jobs_with_several_limits<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let act = async |action: Action, id: JobId| db.operator.act(&action, &[id], "ann").await.unwrap()[0];
    enqueue_all(&f, vec![alone("stripe", 3); 3]).await;
    assert_eq!(settle(db).await, 3);
    let ids = enqueue_all(&f, vec![both("x"); 5]).await;
    let turn = enqueue(&f, ordered("x", OnDiscard::Halt)).await;
    assert_eq!(settle(db).await, 0);
    // The first one waits at the full limit. Without it, the next one does.
    assert_eq!(act(Action::Cancel, ids[0]).await, Operated::Done);
    assert_eq!(act(Action::Delete, ids[1]).await, Operated::Done);
    assert_eq!(act(Action::Reprioritise(7), ids[4]).await, Operated::Done);
    assert_eq!(act(Action::Reprioritise(1), turn).await, Operated::Done);
    assert_eq!(settle(db).await, 0);
    for job in claim(db, worker, 9).await {
        assert!(finish(db, &job, DONE).await);
    }
    assert_eq!(settle(db).await, 3);
    assert_eq!(states(db, &[ids[2], ids[3], ids[4], turn]).await, [Available, Held, Available, Available]);
    assert_eq!(act(Action::Retry, ids[0]).await, Operated::Done);
    let Operated::Enqueued(again) = act(Action::Rerun, ids[0]).await else {
        // A job that waits is no ended one.
        assert_eq!(act(Action::Cancel, ids[0]).await, Operated::Done);
        let Operated::Enqueued(again) = act(Action::Rerun, ids[0]).await else { panic!() };
        assert_eq!(state(db, again).await, Held);
        return;
    };
    panic!("{again}: a waiting job was enqueued anew");
}

pub(crate) async fn a_paused_queue_takes_no_permits_of_any_limit<F: Fixture>(f: F) {
    let db = f.database();
    let of = |queue: &'static str| {
        let mut job = both("x");
        job.queue = queue.into();
        job
    };
    db.operator.pause_queue("closed", "ann", None).await.unwrap();
    let closed = enqueue_all(&f, vec![of("closed"); 3]).await;
    let open = enqueue_all(&f, vec![of("default"); 3]).await;
    assert_eq!(settle(db).await, 2);
    assert_eq!(states(db, &open).await, [Available, Available, Held]);
    assert_eq!(states(db, &closed).await, [Held; 3]);
    db.operator.resume_queue("closed", "ann").await.unwrap();
    let worker = worker(db).await;
    for job in claim(db, worker, 9).await {
        assert!(finish(db, &job, DONE).await);
    }
    db.storage.admit(true).await.unwrap();
    settle(db).await;
    assert_eq!(permits(&f).await, named(&[("account", 2), ("stripe", 2)]));
}

pub(crate) async fn a_sweep_finds_several_limits_without_a_nudge<F: Fixture>(f: F) {
    let db = f.database();
    enqueue_all(&f, vec![both("x"), both("y"), ordered("z", OnDiscard::Halt)]).await;
    let mut later = both("w");
    later.run_at = diesel_jobs_core::RunAt::After(HOUR);
    let later = enqueue(&f, later).await;
    let forget = format!("delete from {}", F::table("nudge"));
    f.client().await.execute(&forget).await.unwrap();
    assert_eq!(admit(db).await, 0);
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 3);
    let worker = worker(db).await;
    for job in claim(db, worker, 9).await {
        assert!(finish(db, &job, DONE).await);
    }
    f.client().await.execute(&forget).await.unwrap();
    f.client().await.execute(&F::passed(HOUR)).await.unwrap();
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
    assert_eq!(state(db, later).await, Available);
}

pub(crate) async fn a_replaced_job_keeps_its_turn_and_waits_again<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue_all(&f, vec![alone("stripe", 3); 3]).await;
    assert_eq!(settle(db).await, 3);
    let replaced = Unique::new().by(&["id"]).on_conflict(OnConflict::Replace(Replace::new().args()));
    let step = |text: &str| {
        let mut job = ordered("x", OnDiscard::Halt);
        job.args = format!(r#"{{"id": 1, "text": "{text}"}}"#);
        job.unique(replaced).unwrap()
    };
    let first = enqueue(&f, step("a")).await;
    let mut later = ordered("x", OnDiscard::Halt);
    later.args = r#"{"id": 2}"#.into();
    let later = enqueue(&f, later).await;
    assert_eq!(settle(db).await, 0);
    assert_eq!(permits(&f).await, named(&[("orders", 1), ("stripe", 3)]));
    // Its turn has come, and it waits at the full limit.
    assert_eq!(enqueue(&f, step("b")).await, first);
    assert_eq!((settle(db).await, state(db, first).await), (0, Held));
    for job in claim(db, worker, 9).await {
        assert!(finish(db, &job, DONE).await);
    }
    for id in [first, later] {
        assert_eq!(settle(db).await, 1);
        let job = only(db, worker).await;
        assert_eq!(job.lease.job, id);
        assert_eq!(permits(&f).await, named(&[("orders", 1), ("stripe", 1)]));
        assert!(finish(db, &job, DONE).await);
    }
    assert_eq!((settle(db).await, permits(&f).await), (0, Vec::new()));
}

pub(crate) async fn a_limit_and_a_rate_of_one_name_do_not_start_each_others_jobs<F: Fixture>(f: F) {
    let db = f.database();
    let shared = || Limit::new("stripe", 10);
    let mut rated = job().rule(Rate::new("account", 100, MINUTE).burst(10)).unwrap().rule(shared()).unwrap();
    rated.priority = 1;
    enqueue(&f, rated).await;
    let limited = job().rule(Limit::new("account", 1)).unwrap().rule(shared()).unwrap();
    enqueue_all(&f, vec![limited; 5]).await;
    assert_eq!(settle(db).await, 2, "the one with the rate, and one of the others");
    assert_eq!(permits(&f).await, named(&[("account", 1), ("stripe", 2)]));
}
