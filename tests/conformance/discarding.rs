//! What is enqueued when a job is discarded.

use std::time::Duration;

use diesel_jobs_core::storage::WorkerInfo;
use diesel_jobs_core::{
    DiscardRule, Discarded, Failure, FailureKind, Finish, JobId, JobState, Keep, NewJob, Rules, Transition, WorkerId,
};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::examining::{none, one};
use crate::fixture::Fixture;

/// Discarded jobs of kind `a` enqueue a job of kind `b`.
pub(crate) fn rule() -> DiscardRule {
    DiscardRule {
        kind: "a".to_owned(),
        enqueues: "b".to_owned(),
        queue: "default".to_owned(),
        priority: 7,
        max_attempts: 3,
        args: r#"{"team":"o'ps \"1\""}"#.to_owned(),
        argument: "the job".to_owned(),
        rules: Rules::default(),
        expires: None,
    }
}

/// A worker whose program declares no rule.
pub(crate) async fn worker(db: &Database) -> WorkerId {
    ready(db, HOUR).await
}

/// The same, with a lease that ends after 1 ms.
pub(crate) async fn mortal(db: &Database) -> WorkerId {
    ready(db, Duration::from_millis(1)).await
}

async fn ready(db: &Database, lease: Duration) -> WorkerId {
    let id = WorkerId::generate();
    db.storage.register(&WorkerInfo { kinds: Vec::new(), ..info(id, lease) }).await.unwrap();
    id
}

async fn declare(db: &Database, rules: &[DiscardRule]) {
    assert!(db.storage.declare_discard_rules(&["a".to_owned(), "b".to_owned()], rules).await.unwrap().all_stand());
}

/// The discarded job in the arguments of a job.
fn discarded(args: &[u8]) -> Discarded {
    let args: serde_json::Value = serde_json::from_slice(args).unwrap();
    assert_eq!(args["team"], "o'ps \"1\"");
    serde_json::from_value(args["the job"].clone()).unwrap()
}

pub(crate) async fn a_discarded_job_enqueues_what_the_rule_of_its_kind_says<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[rule()]).await;
    let worker = worker(db).await;
    // The statements of batches without a discard are prepared on each connection before.
    for _ in 0..10 {
        let running = claimed(&f, worker, job()).await;
        assert!(finish(db, &running, retry_in(HOUR)).await);
    }
    let running = claimed(&f, worker, with(|job| job.max_attempts = 9)).await;
    assert!(finish(db, &running, discard()).await);
    let followers = claim(db, worker, 50).await;
    let [follower] = &followers[..] else { panic!("{followers:?}") };
    assert_eq!((&*follower.kind, &*follower.queue, follower.priority), ("b", "default", 7));
    assert_eq!((follower.attempt, follower.max_attempts), (1, 3));
    let expected = Discarded {
        id: running.lease.job,
        kind: "a".to_owned(),
        queue: "default".to_owned(),
        attempt: 1,
        max_attempts: 9,
        failure: FailureKind::Error,
        error: "it never works".to_owned(),
    };
    assert_eq!(discarded(&follower.args), expected);
    let same = rule().job(&expected).unwrap();
    let parsed = |args: &[u8]| serde_json::from_slice::<serde_json::Value>(args).unwrap();
    assert_eq!(parsed(&follower.args), parsed(same.args.as_bytes()), "Rust and the database write the same");
    assert_eq!((&*same.kind, &*same.queue, same.priority, same.max_attempts), ("b", "default", 7, 3));
    // The rule is about `a` only.
    assert!(finish(db, follower, discard()).await);
    assert!(claim(db, worker, 5).await.is_empty());
}

pub(crate) async fn only_a_discard_that_counts_enqueues_it<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[rule()]).await;
    let worker = worker(db).await;
    let first = claimed(&f, worker, job()).await;
    assert!(finish(db, &first, retry_in(HOUR)).await);
    assert!(!finish(db, &first, discard()).await, "the lease is lost");
    let cancelled = claimed(&f, worker, job()).await;
    assert!(finish(db, &cancelled, cancel()).await);
    let done = claimed(&f, worker, job()).await;
    assert!(finish(db, &done, DONE).await);
    assert!(claim(db, worker, 5).await.is_empty());
}

pub(crate) async fn many_discards_in_a_batch_enqueue_one_each<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[rule()]).await;
    let worker = worker(db).await;
    let mut jobs = vec![job(); 20];
    jobs.extend(vec![with(|job| job.kind = "b".into()); 5]);
    enqueue_all(&f, jobs).await;
    let claimed = claim(db, worker, 25).await;
    let hostile = "\"}'\\ \u{1F600}\u{2028}\u{0} ".repeat(2000);
    let failure = Failure::new(FailureKind::Panic, &hostile);
    let transition = |place: usize| match place % 5 {
        4 => DONE,
        _ => Transition::Discard { failure: failure.clone(), keep: Keep::For(HOUR) },
    };
    let batch: Vec<_> = claimed.iter().enumerate().map(|(place, job)| Finish::new(job, transition(place))).collect();
    assert_eq!(db.storage.finish_all(&batch).await.unwrap().len(), 25);
    let mut of: Vec<JobId> = Vec::new();
    for follower in claim(db, worker, 50).await {
        let gone = discarded(&follower.args);
        assert_eq!((gone.failure, &gone.error), (FailureKind::Panic, &failure.message));
        of.push(gone.id);
    }
    of.sort();
    let expected: Vec<JobId> = ids(&claimed)
        .into_iter()
        .enumerate()
        .filter(|(place, _)| *place < 20 && place % 5 != 4)
        .map(|(_, id)| id)
        .collect();
    assert_eq!(of, expected);
}

pub(crate) async fn a_rescue_that_discards_enqueues_it_too<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[rule()]).await;
    let dead = mortal(db).await;
    let lost = claimed(&f, dead, with(|job| job.max_attempts = 1)).await.lease.job;
    assert_eq!(rescue(db, POLICY).await.discarded, [lost]);
    let followers = claim(db, worker(db).await, 50).await;
    let [follower] = &followers[..] else { panic!("{followers:?}") };
    let gone = discarded(&follower.args);
    assert_eq!((gone.id, gone.failure, gone.attempt, gone.max_attempts), (lost, FailureKind::Crash, 1, 1));
    let (record, failures) = show(db, lost).await.unwrap();
    assert_eq!((record.state, &failures[0].message), (JobState::Discarded, &gone.error));
}

pub(crate) async fn rules_are_replaced_and_removed_with_their_code<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let follower_of = async |job: NewJob| {
        let running = claimed(&f, worker, job).await;
        assert!(finish(db, &running, discard()).await);
        let followers = claim(db, worker, 50).await;
        for follower in &followers {
            assert!(finish(db, follower, DONE).await);
        }
        followers.into_iter().map(|job| (job.kind, job.priority)).collect::<Vec<_>>()
    };
    assert_eq!(follower_of(job()).await, []);
    declare(db, &[rule()]).await;
    declare(db, &[rule()]).await;
    assert_eq!(follower_of(job()).await, [("b".to_owned(), 7)]);
    declare(db, &[DiscardRule { priority: -7, ..rule() }]).await;
    assert_eq!(follower_of(job()).await, [("b".to_owned(), -7)]);
    // A program that does not know the kind leaves its rule alone.
    db.storage.declare_discard_rules(&["c".to_owned()], &[]).await.unwrap();
    assert_eq!(follower_of(job()).await, [("b".to_owned(), -7)]);
    declare(db, &[]).await;
    assert_eq!(follower_of(job()).await, []);
}

pub(crate) async fn a_discarded_job_that_is_not_kept_enqueues_it_too<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[rule()]).await;
    let worker = worker(db).await;
    let running = claimed(&f, worker, job()).await;
    let transition = Transition::Discard { failure: failure("it never works"), keep: Keep::Nothing };
    assert!(finish(db, &running, transition).await);
    let followers = claim(db, worker, 50).await;
    let [follower] = &followers[..] else { panic!("{followers:?}") };
    let gone = discarded(&follower.args);
    assert_eq!((gone.id, gone.attempt, gone.max_attempts), (running.lease.job, 1, 25));
}

pub(crate) async fn the_other_arguments_of_a_rule_are_kept_as_they_are<F: Fixture>(f: F) {
    let db = f.database();
    let args = format!(r#"{{"team":"o'ps \"1\"","nul":"\u0000","numbers":[{}1e300]}}"#, "1e300,".repeat(2000));
    declare(db, &[DiscardRule { args, ..rule() }]).await;
    let worker = worker(db).await;
    let running = claimed(&f, worker, job()).await;
    assert!(finish(db, &running, discard()).await);
    let followers = claim(db, worker, 50).await;
    let [follower] = &followers[..] else { panic!("{followers:?}") };
    assert_eq!(discarded(&follower.args).id, running.lease.job);
    let value: serde_json::Value = serde_json::from_slice(&follower.args).unwrap();
    assert_eq!(value["nul"], "\0");
    assert!(follower.args.len() < 20_000, "{}", follower.args.len());
}

/// Jobs of kind `b` are refused by a trigger of the application.
async fn refuse_followers<F: Fixture>(f: &F) {
    let mut client = f.client().await;
    if F::table("output") == "jobs.output" {
        client
            .execute(
                "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no alerts today'; end $$;
                 create trigger refuse before insert on jobs.ready for each row when (new.kind = 'b') execute function refuse()",
            )
            .await
            .unwrap();
    } else {
        let trigger = "create trigger refuse before insert on jobs_job when new.kind = 'b' begin select raise(abort, 'no alerts today'); end";
        client.execute(trigger).await.unwrap();
    }
}

pub(crate) async fn a_job_whose_follower_is_refused_ends_nevertheless<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[rule()]).await;
    let (worker, dead) = (worker(db).await, mortal(db).await);
    let running = claimed(&f, worker, job()).await;
    let lost = claimed(&f, dead, with(|job| job.max_attempts = 1)).await.lease.job;
    refuse_followers(&f).await;
    assert!(finish(db, &running, discard()).await);
    assert_eq!(rescue(db, POLICY).await.discarded, [lost]);
    for id in [running.lease.job, lost] {
        let (record, failures) = show(db, id).await.unwrap();
        assert_eq!((record.state, failures.len()), (JobState::Discarded, 2));
        let told = |failure: &diesel_jobs_core::AttemptError| {
            failure.message.starts_with("the job `b` for this discarded job was refused: ")
                && failure.message.contains("no alerts today")
        };
        assert!(failures.iter().any(told), "{failures:?}");
    }
    assert!(claim(db, worker, 5).await.is_empty());
}

pub(crate) async fn a_rule_that_a_live_worker_declares_otherwise_is_named<F: Fixture>(f: F) {
    let (db, check) = (f.database(), "on_discarded_declared_otherwise");
    let declares = async |discard_rules: Vec<DiscardRule>| {
        let id = WorkerId::generate();
        let worker = WorkerInfo { kinds: vec!["a".to_owned()], discard_rules, ..info(id, HOUR) };
        db.storage.register(&worker).await.unwrap();
        id
    };
    let named = async |words: &str| {
        let finding = one(db, check).await;
        assert!(
            finding.what.starts_with("`on_discarded` of kind `a` is ") && finding.what.ends_with(words),
            "{finding:?}"
        );
    };
    let newer = declares(vec![rule()]).await;
    named(
        "is not stored, and the live worker bench:4711 declares `b` in queue `default` with priority 7 and 3 attempts",
    )
    .await;
    declare(db, &[rule()]).await;
    none(db, check).await;
    let older = declares(vec![DiscardRule { enqueues: "c".to_owned(), ..rule() }]).await;
    named(
        "is stored as `b` in queue `default` with priority 7 and 3 attempts, and the live worker bench:4711 declares `c` in queue \
         `default` with priority 7 and 3 attempts",
    )
    .await;
    db.storage.deregister(older).await.unwrap();
    let others = [declares(vec![]).await, declares(vec![DiscardRule { args: "{}".to_owned(), ..rule() }]).await];
    named("; 1 more live worker differs, too").await;
    db.storage.deregister(others[1]).await.unwrap();
    named("and the live worker bench:4711 declares none").await;
    db.storage.deregister(others[0]).await.unwrap();
    let other = declares(vec![DiscardRule { expires: Some(HOUR), ..rule() }]).await;
    named("3 attempts with other arguments, rules or `expires`").await;
    // A worker that drains decides no more, and one that does not know the kind never did.
    db.storage.open_heartbeat(other).await.unwrap().beat(true, HOUR).await.unwrap();
    worker(db).await;
    none(db, check).await;
    db.storage.deregister(newer).await.unwrap();
}

/// Two programs of different versions start at the same time repeatedly: each has rules for the kinds of which the
/// other one has none.
pub(crate) async fn programs_with_different_rules_start_at_the_same_time<F: Fixture>(f: F) {
    let db = f.database();
    let kinds: Vec<String> = (0..40).map(|number| format!("kind {number:02}")).collect();
    let rules = |odd: usize| {
        let mine = kinds.iter().enumerate().filter(|(number, _)| number % 2 == odd);
        // In another order than that of the kinds.
        let rules: Vec<DiscardRule> =
            mine.map(|(_, kind)| DiscardRule { kind: kind.clone(), ..rule() }).rev().collect();
        rules
    };
    let (even, odd) = (rules(0), rules(1));
    for round in 0..60 {
        let (one, other) = tokio::join!(
            db.storage.declare_discard_rules(&kinds, &even),
            db.storage.declare_discard_rules(&kinds, &odd)
        );
        // One of them may find the row of a kind locked, and offers the rule again.
        let refused = [one, other].map(|declared| declared.unwrap().refused);
        assert!(refused.iter().all(Vec::is_empty), "round {round}: {refused:?}");
    }
}
