//! What operators do to limits, permits and unique keys while workers run.

use std::time::Duration;

use diesel_jobs_core::storage::{Explained, LimitPermit, PermitOfJob, Reason, Severity};
use diesel_jobs_core::{
    Enqueued, Finish, JobId, JobState, Limit, NewJob, OnDiscard, Sequence, StorageError, Unique, Until,
};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::Fixture;
use crate::limiting::{admit, check, limited};
use crate::setting::audited;
use crate::unique::keys;

use JobState::{Available, Held, Running};

/// A pass that also sweeps.
async fn sweep(db: &Database) -> usize {
    db.storage.admit(true).await.unwrap().admitted
}

/// Why the job waits for its limit.
async fn held(db: &Database, id: JobId) -> Explained {
    let why = db.operator.why(id).await.unwrap();
    why.reasons.into_iter().find(|reason| matches!(reason.reason, Reason::Held(_))).unwrap()
}

pub(crate) async fn a_raised_limit_lets_held_jobs_start_with_the_next_pass<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let ids = enqueue_all(&f, [vec![limited("x"); 5], vec![limited("y"); 4]].concat()).await;
    assert_eq!((admit(db).await, admit(db).await), (4, 0));
    assert!(operator.set_limit("stripe", 3, "ann", Some("a new contract")).await.unwrap());
    // The change itself has nudged both keys: no sweep is needed.
    assert_eq!((admit(db).await, admit(db).await), (2, 0));
    assert_eq!(state(db, ids[2]).await, Available);
    assert_eq!(state(db, ids[3]).await, Held);

    let key = &operator.limit_keys(None, 9).await.unwrap()[0];
    assert_eq!((key.most, key.taken, key.is_full()), (3, 3, true));
    let reason = held(db, ids[3]).await;
    for part in [
        "limit `stripe` allows 3 at once for key [\"x\"] (set by ann to 3 at ",
        ": a new contract; the job says 2), and 3 are taken",
    ] {
        assert!(reason.text.contains(part), "{}", reason.text);
    }
    assert!(reason.advice.contains("`worker limits reset stripe` lets 2 run at once again"), "{}", reason.advice);

    assert!(operator.reset_limit("stripe", "bert").await.unwrap());
    assert!(!operator.reset_limit("stripe", "bert").await.unwrap());
    let reason = held(db, ids[3]).await;
    assert!(reason.text.contains("allows 2 at once for key [\"x\"], and 3 are taken"), "{}", reason.text);
    assert!(reason.advice.contains("worker limits set stripe N"), "{}", reason.advice);
    assert_eq!(
        (
            audited(&f, "ann", "set_limit", "limit stripe").await,
            audited(&f, "bert", "reset_limit", "limit stripe").await
        ),
        (1, 1)
    );
}

pub(crate) async fn a_lowered_limit_admits_nothing_until_enough_permits_are_free<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    let banked = || job().rule(Limit::new("bank", 3)).unwrap();
    enqueue_all(&f, vec![banked(); 6]).await;
    assert_eq!(admit(db).await, 3);
    let mut running = claim(db, worker, 9).await;
    assert_eq!(running.len(), 3);
    assert!(operator.set_limit("bank", 1, "ann", None).await.unwrap());
    for left in [2, 1, 0] {
        assert_eq!(sweep(db).await, 0, "{left} more than the limit run");
        assert!(finish(db, &running.pop().unwrap(), DONE).await);
    }
    assert_eq!((sweep(db).await, sweep(db).await), (1, 0), "one at once");
    operator.reset_limit("bank", "ann").await.unwrap();
    assert_eq!(admit(db).await, 2, "three at once again");
    check_slots(&f, 3).await;
}

/// Checks the number of all permits.
async fn check_slots<F: Fixture>(f: &F, number: i64) {
    let permits = format!("select count(*) as number from {}", F::table("permit"));
    assert_eq!(f.client().await.number(&permits).await, number);
}

pub(crate) async fn a_limit_of_zero_admits_none<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    assert!(operator.set_limit("stripe", 0, "ann", None).await.unwrap());
    let ids = enqueue_all(&f, vec![limited("x"), job().rule(Limit::new("other", 1)).unwrap()]).await;
    assert_eq!((admit(db).await, sweep(db).await), (1, 0), "another limit goes on");
    assert_eq!((state(db, ids[0]).await, state(db, ids[1]).await), (Held, Available));
    let reason = held(db, ids[0]).await;
    assert!(reason.text.contains("(set by ann to 0 at ") && reason.text.ends_with("so none starts"), "{}", reason.text);
    assert!(operator.limit_keys(None, 9).await.unwrap()[0].is_full());
    assert!(operator.set_limit("stripe", 1, "ann", None).await.unwrap());
    assert_eq!(admit(db).await, 1);
    check(&f).await;
}

pub(crate) async fn a_limit_is_set_once_and_outlives_the_session<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    assert!(operator.limit_settings().await.unwrap().is_empty());
    assert!(operator.set_limit("stripe", 5, "ann", Some("it's \"late\"")).await.unwrap());
    assert!(!operator.set_limit("stripe", 5, "bert", Some("me too")).await.unwrap());
    let settings = f.again().await.operator.limit_settings().await.unwrap();
    assert_eq!((settings.len(), &*settings[0].name, settings[0].most, &*settings[0].by), (1, "stripe", 5, "ann"));
    assert_eq!(settings[0].reason.as_deref(), Some("it's \"late\""));
    assert!(close(settings[0].at, now(db).await));
    assert!(operator.set_limit("stripe", 6, "bert", None).await.unwrap());
    let setting = operator.limit_settings().await.unwrap().remove(0);
    assert_eq!((setting.most, &*setting.by, setting.reason), (6, "bert", None));
    assert_eq!(audited(&f, "bert", "set_limit", "limit stripe").await, 1);
    let refused = async |name: &str, most, actor: &str, part: &str| {
        let error = operator.set_limit(name, most, actor, None).await.unwrap_err();
        assert!(matches!(error, StorageError::Config(_)) && error.to_string().contains(part), "{error}");
    };
    refused("", 1, "ann", "must not be empty").await;
    refused("a\0b", 1, "ann", "NUL").await;
    refused("stripe", 10_001, "ann", "from 0 to 10000").await;
    refused("stripe", 1, "", "the actor").await;
    let hostile = "'; drop table jobs.permit; --";
    assert!(operator.set_limit(hostile, 1, hostile, Some(hostile)).await.unwrap());
    assert_eq!(operator.limit_settings().await.unwrap().len(), 2);
}

pub(crate) async fn the_number_of_a_sequence_is_not_changed<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    let ordered = || job().rule(Sequence::new("orders").key(7).on_discard(OnDiscard::Halt)).unwrap();
    let refused = async |when: &str| {
        let error = operator.set_limit("orders", 5, "ann", None).await.unwrap_err().to_string();
        assert!(error.contains("`orders` is a sequence"), "{when}: {error}");
    };
    enqueue(&f, ordered()).await;
    refused("held").await;
    assert_eq!(admit(db).await, 1);
    refused("available").await;
    let jobs = claim(db, worker, 1).await;
    refused("running").await;
    assert!(finish(db, &jobs[0], discard()).await);
    refused("halted").await;
    assert!(operator.limit_settings().await.unwrap().is_empty());
}

pub(crate) async fn a_change_nudges_each_key_once<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    enqueue_all(&f, (0..300).map(|number| limited(&number.to_string())).collect::<Vec<_>>()).await;
    enqueue_all(&f, vec![limited("7"); 20]).await;
    enqueue(&f, job().rule(Limit::new("other", 1)).unwrap()).await;
    let nudge = F::table("nudge");
    f.client().await.execute(&format!("delete from {nudge}")).await.unwrap();
    operator.set_limit("stripe", 3, "ann", None).await.unwrap();
    let number =
        async |sql: &str| f.client().await.number(&format!("select count({sql}) as number from {nudge}")).await;
    assert_eq!((number("*").await, number("distinct limit_key").await), (300, 300));
}

pub(crate) async fn only_a_permit_that_no_job_needs_is_released<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    let permit = F::table("permit");
    let needed = |state| PermitOfJob::Needed { name: "stripe".to_owned(), key: "[\"x\"]".to_owned(), state };
    let limits = vec![LimitPermit { name: "stripe".to_owned(), key: "[\"x\"]".to_owned() }];
    let left = PermitOfJob::Left { limits };
    let ids = enqueue_all(&f, vec![limited("x"); 3]).await;
    assert_eq!(admit(db).await, 2);
    assert_eq!(operator.release_permit(ids[0], "ann").await.unwrap(), needed(Available));
    let jobs = claim(db, worker, 9).await;
    assert_eq!(operator.release_permit(ids[0], "ann").await.unwrap(), needed(Running));
    assert_eq!(operator.release_permit(ids[2], "ann").await.unwrap(), PermitOfJob::None, "a held job has none");
    assert_eq!(operator.release_permit(JobId(987_654), "ann").await.unwrap(), PermitOfJob::None);
    check(&f).await;

    // A permit is left behind, as only a person can do it.
    let left_behind =
        format!("insert into {permit} (job_id, limit_name, limit_key) values ({}, 'stripe', '[\"x\"]')", ids[0]);
    for job in jobs {
        assert!(finish(db, &job, DONE).await);
    }
    for _ in 0..2 {
        f.client().await.execute(&left_behind).await.unwrap();
        f.client().await.execute(&left_behind.replace(&ids[0].to_string(), &ids[1].to_string())).await.unwrap();
        assert_eq!(admit(db).await, 0, "both permits are taken");
        assert_eq!(operator.permit(ids[0]).await.unwrap(), left);
        assert_eq!(operator.release_permit(ids[0], "ann").await.unwrap(), left);
        assert_eq!(operator.release_permit(ids[0], "ann").await.unwrap(), PermitOfJob::None);
        assert_eq!(admit(db).await, 1, "the next job starts at once");
        let next = claim(db, worker, 9).await;
        assert!(finish(db, &next[0], DONE).await);
        f.client().await.execute(&format!("delete from {permit}")).await.unwrap();
        enqueue(&f, limited("x")).await;
    }
    assert_eq!(audited(&f, "ann", "release_permit", &format!("job {}", ids[0])).await, 2);

    // A job with several limits has several permits.
    for name in ["stripe", "bank"] {
        f.client().await.execute(&left_behind.replace("stripe", name)).await.unwrap();
    }
    let both = ["bank", "stripe"].map(|name| LimitPermit { name: name.to_owned(), key: "[\"x\"]".to_owned() });
    assert_eq!(operator.release_permit(ids[0], "ann").await.unwrap(), PermitOfJob::Left { limits: both.to_vec() });
    assert_eq!(operator.release_permit(ids[0], "ann").await.unwrap(), PermitOfJob::None);
    assert!(operator.release_permit(ids[0], "").await.is_err());
}

pub(crate) async fn a_permit_under_a_dead_worker_is_released_and_its_job_goes_on<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let dead = mortal(db).await;
    let ids = enqueue_all(&f, vec![job().rule(Limit::new("bank", 1)).unwrap(); 2]).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(claim(db, dead, 1).await.len(), 1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(matches!(operator.release_permit(ids[0], "ann").await.unwrap(), PermitOfJob::Left { .. }));
    assert_eq!(admit(db).await, 1);
    assert_eq!(rescue(db, POLICY).await.returned, [ids[0]]);
    let worker = worker(db).await;
    let finishes: Vec<Finish> = claim(db, worker, 9).await.iter().map(|job| Finish::new(job, DONE)).collect();
    assert_eq!(db.storage.finish_all(&finishes).await.unwrap().len(), 2);
    check_slots(&f, 0).await;
}

pub(crate) async fn the_permit_of_a_sequence_is_not_released<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    let ordered = || job().rule(Sequence::new("orders").key("x").on_discard(OnDiscard::Halt)).unwrap();
    let ids = enqueue_all(&f, vec![ordered(), ordered()]).await;
    assert_eq!(admit(db).await, 1);
    let refused = async |halts: bool| {
        let found = operator.release_permit(ids[0], "ann").await.unwrap();
        assert!(matches!(&found, PermitOfJob::Sequence { halted, .. } if *halted == halts), "{found:?}");
    };
    refused(false).await;
    let jobs = claim(db, worker, 1).await;
    refused(false).await;
    assert!(finish(db, &jobs[0], retry_in(HOUR)).await);
    refused(false).await;
    assert_eq!(operator.act(&diesel_jobs_core::storage::Action::Discard, &ids[..1], "ann").await.unwrap().len(), 1);
    refused(true).await;
    assert_eq!(sweep(db).await, 0);
    assert_eq!(operator.count_halted().await.unwrap().jobs, 1);
    assert!(operator.skip_sequence("orders", "[\"x\"]", "ann").await.unwrap());
    assert_eq!((operator.count_halted().await.unwrap().jobs, sweep(db).await), (0, 1));
}

pub(crate) async fn halted_sequences_are_a_finding<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    let ordered = || job().rule(Sequence::new("orders").key("it's").on_discard(OnDiscard::Halt)).unwrap();
    let ids = enqueue_all(&f, vec![ordered(), ordered()]).await;
    let found = async || {
        let found = operator.examine(diesel_jobs_core::storage::Objectives::default(), None).await.unwrap();
        found.into_iter().filter(|finding| finding.check == "halted_sequence").collect::<Vec<_>>()
    };
    assert_eq!(admit(db).await, 1);
    assert!(found().await.is_empty());
    let jobs = claim(db, worker, 1).await;
    assert!(finish(db, &jobs[0], discard()).await);
    let findings = found().await;
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warning));
    let what = format!("because job {} was discarded; jobs that wait: 1", ids[0]);
    assert!(
        findings[0].what.starts_with("the sequence `orders` is halted for key [\"it's\"] since 20"),
        "{}",
        findings[0].what
    );
    assert!(findings[0].what.ends_with(&what), "{}", findings[0].what);
    let repair =
        format!("worker retry {}, or without that job: worker sequences skip 'orders' '[\"it'\\''s\"]'", ids[0]);
    assert_eq!(findings[0].repair, repair);
    // The job behind it waits for a reason that is found already.
    let hour_ago = match F::TABLES.contains(&"ready") {
        true => format!("update {} set run_at = now() - interval '1 hour' where id = {}", F::table("held"), ids[1]),
        false => format!("update {} set due_at = due_at - 3600000000 where id = {}", F::table("job"), ids[1]),
    };
    f.client().await.execute(&hour_ago).await.unwrap();
    let all = operator.examine(diesel_jobs_core::storage::Objectives::default(), None).await.unwrap();
    assert!(all.iter().all(|finding| finding.check != "oldest_held"), "{all:?}");
    operator.act(&diesel_jobs_core::storage::Action::Delete, &ids[..1], "ann").await.unwrap();
    assert!(found().await[0].repair.starts_with("worker sequences skip"), "a job that is gone cannot be retried");
}

pub(crate) async fn repairs_work_for_names_that_begin_like_options<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    let ordered = job().rule(Sequence::new("-s").on_discard(OnDiscard::Halt)).unwrap();
    enqueue(&f, ordered).await;
    assert_eq!(admit(db).await, 1);
    assert!(finish(db, &claim(db, worker, 1).await[0], discard()).await);
    let limited = || job().rule(Limit::new("--l", 1)).unwrap();
    let ids = enqueue_all(&f, vec![limited(), limited()]).await;
    assert_eq!(admit(db).await, 1);
    let hour_ago = match F::TABLES.contains(&"ready") {
        true => format!("update {} set run_at = now() - interval '1 hour' where id = {}", F::table("held"), ids[1]),
        false => format!("update {} set due_at = due_at - 3600000000 where id = {}", F::table("job"), ids[1]),
    };
    f.client().await.execute(&hour_ago).await.unwrap();
    let found = operator.examine(diesel_jobs_core::storage::Objectives::default(), None).await.unwrap();
    let repair = |check: &str| &*found.iter().find(|finding| finding.check == check).unwrap().repair;
    assert!(repair("halted_sequence").ends_with("worker sequences skip -- '-s' '[]'"), "{found:?}");
    assert!(repair("oldest_held").ends_with("worker limits set -- '--l' N"), "{found:?}");
}

const RULE: Unique = Unique::new().by(&["user"]);

fn unique(user: &str, rule: Unique) -> NewJob {
    NewJob::raw("a", serde_json::json!({ "user": user }).to_string()).unique(rule).unwrap()
}

async fn answer<F: Fixture>(f: &F, job: NewJob) -> Enqueued {
    f.client().await.answer(job).await.unwrap()
}

pub(crate) async fn a_released_key_is_free_and_its_job_goes_on<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    for step in ["waiting", "running"] {
        let first = answer(&f, unique(step, RULE)).await.id();
        let claimed = if step == "running" { claim(db, worker, 9).await } else { Vec::new() };
        assert!(answer(&f, unique(step, RULE)).await.is_existing(), "{step}");
        let key = operator.release_key(first, "ann").await.unwrap().unwrap();
        assert_eq!((&*key.name, key.key, key.in_effect), ("a", format!("[\"{step}\"]"), true));
        assert_eq!(operator.release_key(first, "ann").await.unwrap(), None, "{step}");
        assert_eq!(audited(&f, "ann", "release_key", &format!("job {first}")).await, 1);
        let second = answer(&f, unique(step, RULE)).await;
        assert!(second.is_new(), "{step}");
        for job in claimed {
            assert!(finish(db, &job, DONE).await);
        }
        // The end of the first job does not release the key of the second one.
        operator.cancel(first).await.unwrap();
        assert!(answer(&f, unique(step, RULE)).await.is_existing(), "{step}");
        operator.cancel(second.id()).await.unwrap();
    }
    assert_eq!(keys(&f).await, 0);
    let plain = enqueue(&f, job()).await;
    assert_eq!(operator.release_key(plain, "ann").await.unwrap(), None);
    assert!(operator.release_key(plain, "").await.is_err());
}

pub(crate) async fn why_names_the_unique_key_and_whether_it_counts<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    let why = async |id: JobId| operator.why(id).await.unwrap().unique_key;
    let rule = RULE.until(Until::Started).within(HOUR);
    let first = answer(&f, unique("x", rule)).await.id();
    let key = why(first).await.unwrap();
    assert_eq!((&*key.name, &*key.key, key.until_started, key.in_effect), ("a", "[\"x\"]", true, true));
    let left = key.until.unwrap() - now(db).await;
    assert!(left > chrono::TimeDelta::minutes(58) && left <= chrono::TimeDelta::hours(1), "{left}");
    let jobs = claim(db, worker, 1).await;
    assert!(!why(first).await.unwrap().in_effect, "it has started");
    let second = answer(&f, unique("x", RULE)).await;
    assert!(second.is_new());
    assert_eq!((why(first).await, why(second.id()).await.map(|key| key.in_effect)), (None, Some(true)));
    assert!(finish(db, &jobs[0], DONE).await);
    let limited = answer(&f, limited("x").unique(Unique::new()).unwrap()).await.id();
    assert!(why(limited).await.unwrap().in_effect, "a held job has its key");
    let plain = enqueue(&f, job()).await;
    assert_eq!(why(plain).await, None);
}
