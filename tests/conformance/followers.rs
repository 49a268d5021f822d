//! Jobs that are enqueued for discarded ones, and that have rules or expire.

use std::time::Duration;

use diesel_jobs_core::__private::EXPIRED;
use diesel_jobs_core::storage::{Action, JobFilter, Transacted, WaitEnd};
use diesel_jobs_core::{
    ClaimedJob, DiscardRule, Finish, JobId, JobRecord, JobState, Keep, Limit, NewJob, OnFull, OwnRule, Rate, Sequence,
    Transition,
};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::discarding::{mortal, rule, worker};
use crate::fixture::{Act, Fixture};
use crate::limiting::admit;
use crate::transacting::transaction;

use JobState::{Available, Cancelled, Discarded, Held};

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// A job of kind `b` with these rules.
fn ruled<const N: usize>(rules: [OwnRule; N]) -> NewJob {
    rules.into_iter().fold(NewJob::raw("b", "{}"), |job, rule| job.rule(rule).unwrap())
}

/// Discarded jobs of kind `a` enqueue a job of kind `b` with the rules of this one. It expires if this one does.
pub(crate) async fn declare(db: &Database, job: NewJob) {
    let rule = DiscardRule { rules: job.rules, expires: job.expires, ..rule() };
    db.storage.declare_discard_rules(&["a".to_owned()], &[rule]).await.unwrap();
}

/// One job at a time.
fn one_pager() -> NewJob {
    ruled([Limit::new("pager", 1).into()])
}

/// A job of kind `a` fails for the last time.
async fn one_fails<F: Fixture>(f: &F) {
    let worker = worker(f.database()).await;
    let lost = claimed(f, worker, job()).await;
    assert!(finish(f.database(), &lost, discard()).await);
}

/// The jobs of kind `b`, by id.
async fn followers(db: &Database) -> Vec<JobRecord> {
    let mut found = db.operator.list_all(&JobFilter::of_kind("b"), 50).await.unwrap();
    found.sort_by_key(|job| job.id);
    found
}

async fn states(db: &Database) -> Vec<JobState> {
    followers(db).await.into_iter().map(|job| job.state).collect()
}

/// Claims the only job that is available.
async fn only(db: &Database) -> ClaimedJob {
    let mut jobs = claim(db, worker(db).await, 9).await;
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

async fn let_pass<F: Fixture>(f: &F, time: Duration) {
    f.client().await.execute(&F::passed(time)).await.unwrap();
}

pub(crate) async fn it_waits_while_another_job_of_its_key_runs<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, one_pager()).await;
    enqueue(&f, one_pager()).await;
    assert_eq!(admit(db).await, 1);
    let first = only(db).await;
    one_fails(&f).await;
    assert_eq!(states(db).await, [JobState::Running, Held]);
    assert_eq!(admit(db).await, 0);
    assert!(finish(db, &first, DONE).await);
    assert_eq!(admit(db).await, 1);
    let follower = only(db).await;
    assert_eq!((&*follower.kind, follower.priority, follower.max_attempts), ("b", 7, 3));
    one_fails(&f).await;
    assert_eq!(admit(db).await, 0, "the follower has the permit");
    assert!(finish(db, &follower, DONE).await);
    assert_eq!(admit(db).await, 1);
}

/// Passes until nothing more starts.
async fn settle(db: &Database) {
    loop {
        let found = db.storage.admit(false).await.unwrap();
        if found.admitted == 0 && !found.more {
            return;
        }
    }
}

/// Whatever the rules are, the follower is stored like a job with these rules that is enqueued.
pub(crate) async fn it_is_stored_as_an_enqueue_stores_it<F: Fixture>(f: F) {
    let db = f.database();
    let limit = || Limit::new("pager", 1).key("o'ps \"7\"");
    let rate = || Rate::new("calls", 6, HOUR).burst(2);
    let all = [
        ruled([limit().into()]),
        ruled([limit().on_full(OnFull::CancelOldest).into()]),
        ruled([limit().fair_by("acme").into()]),
        ruled([rate().into()]),
        ruled([Sequence::new("pages").key(3).into()]),
        ruled([limit().into(), rate().into()]),
        ruled([limit().into(), rate().into(), Sequence::new("pages").into()]),
        ruled([]),
    ];
    for (like, expires) in all.iter().flat_map(|like| [None, Some(TEN_MINUTES)].map(|expires| (like, expires))) {
        let mut like = like.clone();
        like.expires = expires;
        declare(db, like.clone()).await;
        one_fails(&f).await;
        let follower = followers(db).await.pop().unwrap();
        let enqueued = record(db, enqueue(&f, like.clone()).await).await;
        assert_eq!((&follower.rules, follower.flags), (&like.rules, enqueued.flags));
        assert_eq!(follower.state, if like.rules.is_empty() { Available } else { Held });
        assert_eq!(follower.state, enqueued.state, "{:?}", like.rules);
        let start_by = db.operator.surroundings(follower.id).await.unwrap().start_by;
        match expires {
            Some(time) => assert!(close(start_by.unwrap(), now(db).await + time)),
            None => assert_eq!(start_by, None),
        }
        settle(db).await;
        assert_eq!(state(db, follower.id).await, Available, "its key was nudged: {:?}", like.rules);
        db.operator.act(&Action::Cancel, &[follower.id, enqueued.id], "ann").await.unwrap();
        let_pass(&f, HOUR).await;
    }
}

/// Each way in which a job is discarded, with a follower that is held, and nudges.
pub(crate) async fn it_is_held_in_whatever_way_the_job_was_discarded<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, one_pager()).await;
    let mut known = 0;
    let mut waits = async |way: &str, of: JobId| {
        let all = followers(db).await;
        known += 1;
        assert_eq!(all.len(), known, "{way}");
        let follower = all.last().unwrap();
        let args: serde_json::Value = serde_json::from_str(&follower.args).unwrap();
        assert_eq!((follower.state, args["the job"]["id"].as_i64()), (Held, Some(of.0)), "{way}");
        assert_eq!(admit(db).await, 1, "{way}: its key was nudged");
        let job = only(db).await;
        assert_eq!(job.lease.job, follower.id, "{way}");
        assert!(finish(db, &job, DONE).await);
        assert_eq!((failures(db, of).await.len(), admit(db).await), (1, 0), "{way}: nothing was refused");
    };

    let worker = worker(db).await;
    let failed = claimed(&f, worker, job()).await;
    assert!(finish(db, &failed, discard()).await);
    waits("finish", failed.lease.job).await;

    let forgotten = claimed(&f, worker, job()).await;
    let transition = Transition::Discard { failure: failure("it never works"), keep: Keep::For(HOUR) };
    let others = [DONE, retry_in(HOUR)].map(|transition| (job(), transition));
    let mut batch = vec![Finish::new(&forgotten, transition)];
    for (job, transition) in others {
        batch.push(Finish::new(&claimed(&f, worker, job).await, transition));
    }
    assert_eq!(db.storage.finish_all(&batch).await.unwrap().len(), 3);
    waits("finish of a batch", forgotten.lease.job).await;

    let dead = mortal(db).await;
    let lost = claimed(&f, dead, with(|job| job.max_attempts = 1)).await.lease.job;
    assert_eq!(rescue(db, POLICY).await.discarded, [lost]);
    waits("rescue", lost).await;

    let waiting = enqueue(&f, job()).await;
    db.operator.act(&Action::Discard, &[waiting], "ann").await.unwrap();
    waits("discard of a waiting job", waiting).await;

    let held = enqueue(&f, job().rule(Limit::new("stripe", 1)).unwrap()).await;
    db.operator.act(&Action::Discard, &[held], "ann").await.unwrap();
    assert_eq!(state(db, held).await, Discarded);
    waits("discard of a held job", held).await;

    let hasty = || job().rule(Limit::new("stripe", 1).on_full(OnFull::Discard)).unwrap();
    let first = enqueue(&f, hasty()).await;
    assert_eq!(admit(db).await, 1);
    let second = enqueue(&f, hasty()).await;
    assert!(db.storage.admit(false).await.unwrap().may_be_full);
    assert_eq!(db.storage.end_waiting(WaitEnd::LimitFull, POLICY.retention).await.unwrap().ended.len(), 1);
    assert!(finish(db, &claim(db, worker, 1).await[0], DONE).await);
    assert_eq!(state(db, first).await, JobState::Completed);
    waits("on_full", second).await;

    for provided in F::provided() {
        let job = claimed(&f, worker, job()).await;
        let act = Act::new(provided.0, Ok(discard()));
        let ended = db.storage.transact(transaction(&provided, &job, act)).await;
        assert!(matches!(ended, Transacted::Committed(_)), "{}: {ended:?}", provided.0);
        waits(provided.0, job.lease.job).await;
    }
}

pub(crate) async fn followers_of_a_sequence_run_one_after_the_other<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, ruled([Sequence::new("pages").into()])).await;
    for _ in 0..3 {
        one_fails(&f).await;
    }
    for follower in followers(db).await {
        assert_eq!(admit(db).await, 1);
        let job = only(db).await;
        assert_eq!((job.lease.job, admit(db).await), (follower.id, 0));
        assert!(finish(db, &job, DONE).await);
    }
}

pub(crate) async fn a_follower_in_the_halted_sequence_waits<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, ruled([Sequence::new("pages").into()])).await;
    enqueue(&f, job().rule(Sequence::new("pages")).unwrap()).await;
    assert_eq!(admit(db).await, 1);
    assert!(finish(db, &only(db).await, discard()).await);
    assert_eq!((admit(db).await, states(db).await), (0, vec![Held]));
    assert!(db.operator.skip_sequence("pages", "[]", "ann").await.unwrap());
    assert_eq!((admit(db).await, states(db).await), (1, vec![Available]));
}

pub(crate) async fn followers_with_a_rate_wait_for_tokens<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, ruled([Rate::new("calls", 6, HOUR).into()])).await;
    let worker = worker(db).await;
    enqueue_all(&f, vec![job(); 3]).await;
    let lost = claim(db, worker, 3).await;
    let lost: Vec<Finish> = lost.iter().map(|job| Finish::new(job, discard())).collect();
    assert_eq!(db.storage.finish_all(&lost).await.unwrap().len(), 3);
    for available in 1..=3 {
        assert_eq!((admit(db).await, admit(db).await), (1, 0));
        assert_eq!(states(db).await.iter().filter(|state| **state == Available).count(), available);
        let_pass(&f, TEN_MINUTES).await;
    }
}

pub(crate) async fn a_follower_with_two_rules_waits_for_both<F: Fixture>(f: F) {
    let db = f.database();
    let both = || ruled([Limit::new("pager", 1).into(), Rate::new("calls", 6, HOUR).into()]);
    declare(db, both()).await;
    enqueue(&f, one_pager()).await;
    assert_eq!(admit(db).await, 1);
    let first = only(db).await;
    one_fails(&f).await;
    settle(db).await;
    assert_eq!(states(db).await, [JobState::Running, Held], "it waits for the permit");
    assert!(finish(db, &first, DONE).await);
    settle(db).await;
    let follower = only(db).await;
    assert!(finish(db, &follower, DONE).await);
    one_fails(&f).await;
    settle(db).await;
    assert_eq!(states(db).await.pop(), Some(Held), "it waits for the token");
    let_pass(&f, TEN_MINUTES).await;
    settle(db).await;
    assert_eq!(states(db).await.pop(), Some(Available));
}

pub(crate) async fn a_follower_that_finds_its_limit_full_is_discarded<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, ruled([Limit::new("pager", 1).on_full(OnFull::Discard).into()])).await;
    one_fails(&f).await;
    one_fails(&f).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(db.storage.end_waiting(WaitEnd::LimitFull, POLICY.retention).await.unwrap().ended.len(), 1);
    assert_eq!(states(db).await, [Available, Discarded]);
}

pub(crate) async fn a_follower_that_starts_too_late_is_cancelled<F: Fixture>(f: F) {
    let db = f.database();
    for mut like in [ruled([]), one_pager()] {
        like.expires = Some(TEN_MINUTES);
        declare(db, like).await;
        one_fails(&f).await;
        let follower = followers(db).await.pop().unwrap().id;
        let_pass(&f, TEN_MINUTES - MINUTE).await;
        assert!(!db.storage.admit(true).await.unwrap().expired);
        let_pass(&f, 2 * MINUTE).await;
        assert!(db.storage.admit(true).await.unwrap().expired);
        assert_eq!(db.storage.expire(HOUR).await.unwrap().len(), 1);
        assert_eq!(state(db, follower).await, Cancelled);
        assert_eq!(failures(db, follower).await[0].message, EXPIRED);
    }
}

/// A trigger refuses each write of a rule.
async fn refuse_rules<F: Fixture>(f: &F) {
    let sql = match F::TABLES.contains(&"ready") {
        true => {
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no rule today'; end $$;
             create trigger refuse before insert or update on jobs.on_discarded for each row execute function refuse()"
        }
        false => {
            "create trigger refuse before insert on jobs_on_discarded begin select raise(abort, 'no rule today'); end"
        }
    };
    f.client().await.execute(sql).await.unwrap();
}

/// Workers that start at the same time would wait for each other.
pub(crate) async fn rules_that_are_stored_already_are_only_read<F: Fixture>(f: F) {
    let db = f.database();
    let mut like = ruled([Limit::new("pager", 1).fair_by("acme").into()]);
    like.expires = Some(Duration::from_millis(1500));
    let rules = [
        rule(),
        DiscardRule { kind: "b".to_owned(), rules: like.rules.clone(), ..rule() },
        DiscardRule { kind: "c".to_owned(), expires: like.expires, ..rule() },
        DiscardRule { kind: "d".to_owned(), rules: like.rules, expires: like.expires, ..rule() },
    ];
    let kinds: Vec<String> = rules.iter().map(|rule| rule.kind.clone()).collect();
    db.storage.declare_discard_rules(&kinds, &rules).await.unwrap();
    refuse_rules(&f).await;
    db.storage.declare_discard_rules(&kinds, &rules).await.unwrap();
    for changed in [
        DiscardRule { rules: Default::default(), ..rules[3].clone() },
        DiscardRule { rules: one_pager().rules, ..rules[3].clone() },
        DiscardRule { expires: None, ..rules[3].clone() },
        DiscardRule { expires: Some(HOUR), ..rules[3].clone() },
    ] {
        let mut rules = rules.clone();
        rules[3] = changed;
        let refused = db.storage.declare_discard_rules(&kinds, &rules).await.unwrap().refused;
        let [(kind, problem)] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!(kind, "d");
        assert!(problem.to_string().contains("no rule today"), "{problem}");
    }
}
