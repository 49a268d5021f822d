//! Rates: this many jobs with the same key start per interval, and at most a burst at once.

use std::time::Duration;

use diesel_jobs_core::storage::{Action, Operated, RateKey};
use diesel_jobs_core::{JobId, JobState, NewJob, OnFull, Rate, Reason, Rule, RunAt, Transition};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::Fixture;
use crate::limiting::{admit, limited};

use JobState::{Available, Held, Retrying, Scheduled};

/// The time between two tokens: so long that a slow machine's delays add none.
const EVERY: Duration = Duration::from_secs(10 * 60);

/// A job of kind `a` with this key: one in 10 minutes, and three at once.
fn rated(key: &str) -> NewJob {
    job().rule(Rate::new("api", 6, HOUR).burst(3).key(key)).unwrap()
}

async fn let_pass<F: Fixture>(f: &F, time: Duration) {
    f.client().await.execute(&F::passed(time)).await.unwrap();
}

/// The state of each job, one letter each.
async fn states(db: &Database, ids: &[JobId]) -> String {
    let mut all = String::new();
    for id in ids {
        let state = state(db, *id).await;
        all.push(state.as_str().chars().next().unwrap());
    }
    all
}

/// In how many minutes the next token comes for which a job waits, rounded up.
async fn next_token(db: &Database) -> Option<u64> {
    let found = db.storage.admit(false).await.unwrap();
    assert_eq!(found.admitted, 0);
    found.next_token.map(|time| ((time.as_secs_f64() - 0.001) / 60.0).ceil() as u64)
}

async fn rows<F: Fixture>(f: &F) -> i64 {
    f.client().await.number(&format!("select count(*) as number from {}", F::table("rate"))).await
}

pub(crate) async fn first_a_burst_starts_and_then_one_after_the_other<F: Fixture>(f: F) {
    let db = f.database();
    for (name, mut client) in f.clients().await {
        let ids = client.enqueue_all(vec![rated(name); 6]).await.unwrap();
        assert_eq!(states(db, &ids).await, "hhhhhh", "{name}");
        assert_eq!(admit(db).await, 3, "{name}");
        assert_eq!(states(db, &ids).await, "aaahhh", "{name}");
        assert_eq!(admit(db).await, 0, "{name}");
        assert_eq!(next_token(db).await, Some(10), "{name}");
        let_pass(&f, EVERY / 2).await;
        assert_eq!((admit(db).await, next_token(db).await), (0, Some(5)), "{name}");
        let_pass(&f, EVERY / 2).await;
        assert_eq!(admit(db).await, 1, "{name}: nobody has nudged the key");
        assert_eq!(next_token(db).await, Some(10), "{name}");
        let_pass(&f, EVERY * 3 / 2).await;
        assert_eq!(admit(db).await, 1, "{name}");
        assert_eq!(next_token(db).await, Some(5), "{name}");
        let_pass(&f, EVERY / 2).await;
        assert_eq!(admit(db).await, 1, "{name}");
        assert_eq!(states(db, &ids).await, "aaaaaa", "{name}");
        assert_eq!(next_token(db).await, None, "{name}: no job waits");
    }
}

pub(crate) async fn tokens_come_back_up_to_the_burst<F: Fixture>(f: F) {
    let db = f.database();
    enqueue_all(&f, vec![rated("x"); 2]).await;
    assert_eq!(admit(db).await, 2);
    let_pass(&f, HOUR).await;
    enqueue_all(&f, vec![rated("x"); 5]).await;
    assert_eq!(admit(db).await, 3);
    let_pass(&f, HOUR).await;
    assert_eq!(admit(db).await, 2);
    // A key that has all its tokens has no row.
    let_pass(&f, HOUR).await;
    assert_eq!(rows(&f).await, 1);
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 0);
    assert_eq!(rows(&f).await, 0);
}

pub(crate) async fn keys_have_tokens_of_their_own<F: Fixture>(f: F) {
    let db = f.database();
    enqueue_all(&f, vec![rated("x"); 5]).await;
    assert_eq!(admit(db).await, 3);
    let other = enqueue_all(&f, vec![rated("y"); 2]).await;
    let plain = enqueue(&f, job()).await;
    assert_eq!(admit(db).await, 2, "a key without tokens delays no other one");
    assert_eq!(states(db, &other).await, "aa");
    assert_eq!(state(db, plain).await, Available);
    let worker = worker(db).await;
    let jobs = claim(db, worker, 9).await;
    assert_eq!(jobs.len(), 6);
    for job in jobs {
        assert!(finish(db, &job, DONE).await);
    }
    let nudges = f.client().await.number(&format!("select count(*) as number from {}", F::table("nudge"))).await;
    assert_eq!((admit(db).await, nudges), (0, 0), "an end brings no token");
    let permits = f.client().await.number(&format!("select count(*) as number from {}", F::table("permit"))).await;
    assert_eq!(permits, 0, "a rate has no permits");
}

pub(crate) async fn the_highest_priority_comes_first<F: Fixture>(f: F) {
    let db = f.database();
    let mut jobs = vec![rated("x"); 5];
    jobs[4].priority = 9;
    let ids = enqueue_all(&f, jobs).await;
    assert_eq!(admit(db).await, 3);
    assert_eq!(states(db, &ids).await, "aahha");
}

pub(crate) async fn a_retry_and_a_snooze_spend_a_token<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let ids = enqueue_all(&f, vec![rated("x"); 3]).await;
    assert_eq!(admit(db).await, 3);
    let jobs = claim(db, worker, 9).await;
    assert!(finish(db, &jobs[0], retry_in(Duration::ZERO)).await);
    assert!(finish(db, &jobs[1], Transition::Snooze(Duration::ZERO)).await);
    assert!(finish(db, &jobs[2], Transition::Release).await);
    assert_eq!(admit(db).await, 0);
    assert_eq!(states(db, &ids).await, "hha", "a released job keeps its token");
    let mut jobs = claim(db, worker, 9).await;
    for _ in 0..2 {
        let_pass(&f, EVERY).await;
        assert_eq!(admit(db).await, 1);
        jobs.extend(claim(db, worker, 9).await);
    }
    assert_eq!(jobs.len(), 3);
    assert!(finish(db, &jobs[0], retry_in(HOUR)).await);
    assert!(finish(db, &jobs[1], Transition::Snooze(HOUR)).await);
    for job in &jobs[..2] {
        assert!([Retrying, Scheduled].contains(&state(db, job.lease.job).await));
    }
    let_pass(&f, HOUR).await;
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 2, "a sweep finds those that have become due");
}

pub(crate) async fn a_rescued_job_keeps_its_token<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let ids = enqueue_all(&f, vec![rated("x"); 4]).await;
    assert_eq!(admit(db).await, 3);
    assert_eq!(claim(db, dead, 9).await.len(), 3);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(rescue(db, POLICY).await.returned.len(), 3);
    assert_eq!(admit(db).await, 0);
    assert_eq!(states(db, &ids).await, "aaah");
}

pub(crate) async fn a_rollback_spends_no_token<F: Fixture>(f: F) {
    let db = f.database();
    for (name, mut client) in f.clients().await {
        client.begin().await;
        client.enqueue_all(vec![rated(name); 3]).await.unwrap();
        client.rollback().await;
        assert_eq!(admit(db).await, 0, "{name}");
        client.begin().await;
        let mixed = client.enqueue_all(vec![job(), rated(name), job(), rated(name)]).await.unwrap();
        client.commit().await;
        assert_eq!(states(db, &mixed).await, "ahah", "{name}");
        assert_eq!(admit(db).await, 2, "{name}");
        client.enqueue(rated(name)).await.unwrap();
        assert_eq!(admit(db).await, 1, "{name}");
    }
}

pub(crate) async fn a_paused_queue_spends_no_tokens<F: Fixture>(f: F) {
    let db = f.database();
    let mut elsewhere = rated("x");
    elsewhere.queue = "other".into();
    let paused = enqueue_all(&f, vec![rated("x"); 4]).await;
    let other = enqueue_all(&f, vec![elsewhere; 2]).await;
    db.operator.pause_queue("default", "ann", None).await.unwrap();
    while db.storage.admit(false).await.unwrap().more {}
    assert_eq!((states(db, &paused).await, states(db, &other).await), ("hhhh".to_owned(), "aa".to_owned()));
    db.operator.resume_queue("default", "ann").await.unwrap();
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1, "there is one token left");
    assert_eq!(states(db, &paused).await, "ahhh");
}

pub(crate) async fn a_sweep_finds_rates_without_a_nudge<F: Fixture>(f: F) {
    let db = f.database();
    let mut later = rated("later");
    later.run_at = RunAt::After(HOUR);
    let later = enqueue(&f, later).await;
    enqueue_all(&f, (0..5).map(|key| rated(&key.to_string())).collect()).await;
    f.client().await.execute(&format!("delete from {}", F::table("nudge"))).await.unwrap();
    assert_eq!(admit(db).await, 0);
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 5);
    assert_eq!(state(db, later).await, Scheduled);
    let_pass(&f, HOUR).await;
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
}

pub(crate) async fn operators_act_on_jobs_with_a_rate<F: Fixture>(f: F) {
    let db = f.database();
    let act = async |action: Action, id: JobId| db.operator.act(&action, &[id], "ann").await.unwrap()[0];
    let ids = enqueue_all(&f, vec![rated("x"); 6]).await;
    assert_eq!(admit(db).await, 3);
    assert_eq!(act(Action::Cancel, ids[3]).await, Operated::Done);
    assert_eq!(act(Action::Cancel, ids[0]).await, Operated::Done);
    assert_eq!(act(Action::Reprioritise(5), ids[5]).await, Operated::Done);
    assert_eq!(admit(db).await, 0, "a cancelled job brings no token");
    let_pass(&f, EVERY).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(states(db, &ids).await, "caacha");
    assert_eq!(act(Action::Retry, ids[0]).await, Operated::Done);
    assert_eq!(state(db, ids[0]).await, Held, "a retry waits for a token");
    let_pass(&f, EVERY * 3).await;
    assert_eq!(admit(db).await, 2);
    // Those that wait go away. The key is not examined any more.
    let more = enqueue_all(&f, vec![rated("x"); 2]).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(act(Action::Delete, more[1]).await, Operated::Done);
    let_pass(&f, EVERY).await;
    assert_eq!(next_token(db).await, None);
}

pub(crate) async fn a_rate_that_is_changed_holds_for_the_next_job<F: Fixture>(f: F) {
    let db = f.database();
    let slow = job().rule(Rate::new("api", 1, 24 * HOUR).key("x")).unwrap();
    enqueue_all(&f, vec![slow.clone(), slow]).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(next_token(db).await, Some(24 * 60));
    let mut urgent = rated("x");
    urgent.priority = 1;
    enqueue_all(&f, vec![urgent; 4]).await;
    assert_eq!(admit(db).await, 0, "the tokens of the new rate are spent, too");
    assert_eq!(next_token(db).await, Some(10), "but it waits no longer than the new rate says");
    let_pass(&f, EVERY).await;
    assert_eq!(admit(db).await, 1);
    // The clock was set back by a day.
    let_pass(&f, EVERY).await;
    let back = match F::TABLES.contains(&"ready") {
        true => "update jobs.rate set full_at = full_at + interval '1 day', next_at = next_at + interval '1 day'",
        false => "update jobs_rate set full_at = full_at + 86400000000, next_at = next_at + 86400000000",
    };
    f.client().await.execute(back).await.unwrap();
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 0);
    enqueue(&f, rated("x")).await;
    assert_eq!(next_token(db).await, Some(10));
}

pub(crate) async fn why_says_when_the_token_comes<F: Fixture>(f: F) {
    let db = f.database();
    worker(db).await;
    let ids = enqueue_all(&f, vec![rated("x"); 5]).await;
    admit(db).await;
    let held = async |id| {
        let why = db.operator.why(id).await.unwrap();
        let found = why.reasons.into_iter().find_map(|explained| match explained.reason {
            Reason::Held(by) => Some((by, explained.text)),
            _ => None,
        });
        found.unwrap()
    };
    let (by, text) = held(ids[3]).await;
    let tokens = by.tokens.unwrap();
    assert_eq!((by.ahead, tokens.next), (0, tokens.own));
    let wait = (tokens.next - now(db).await).as_seconds_f64();
    assert!((540.0..=600.0).contains(&wait), "{wait}");
    assert!(text.contains("rate `api` lets 6 jobs start in 1h for key [\"x\"], and 3 at once"), "{text}");
    let (by, text) = held(ids[4]).await;
    let tokens = by.tokens.unwrap();
    assert_eq!((by.ahead, (tokens.own - tokens.next).num_milliseconds()), (1, 600_000));
    assert!(text.contains("1 job of this key comes before it"), "{text}");
    let Rule::Rate { limit, per, burst, .. } = record(db, ids[4]).await.rules[0].rule else { panic!("it is no rate") };
    assert_eq!((limit, per, burst), (6, HOUR, 3));
}

pub(crate) async fn why_counts_the_jobs_before_one_of_any_priority<F: Fixture>(f: F) {
    let db = f.database();
    for new in [rated("x"), limited("x")] {
        let with = |priority| {
            let mut new = new.clone();
            new.priority = priority;
            new
        };
        let ids = enqueue_all(&f, vec![with(i16::MAX), with(i16::MIN), with(0), with(i16::MIN)]).await;
        for (id, before) in [(ids[0], 0), (ids[2], 1), (ids[1], 2), (ids[3], 3)] {
            let why = db.operator.why(id).await.unwrap();
            let is_held = |reason: &Reason| matches!(reason, Reason::Held(by) if by.ahead == before);
            assert!(why.reasons.iter().any(|explained| is_held(&explained.reason)), "{before}: {why:?}");
        }
    }
}

pub(crate) async fn the_starts_keep_to_the_rate<F: Fixture>(f: F) {
    let db = f.database();
    let hourly = job().rule(Rate::new("api", 200, 200 * HOUR).burst(200)).unwrap();
    enqueue_all(&f, vec![hourly; 400]).await;
    assert_eq!(db.storage.admit(false).await.unwrap().admitted, 200);
    let (mut minutes, mut starts) = (0, 0);
    // Passes come early, in time, and late by one token or more.
    for pass in [30, 30, 60, 180, 75].iter().cycle().take(60) {
        let_pass(&f, *pass * MINUTE).await;
        minutes += pass;
        let found = db.storage.admit(false).await.unwrap();
        starts += found.admitted;
        assert_eq!(starts, minutes as usize / 60, "after {minutes} minutes");
        let wait = found.next_token.expect("jobs wait");
        let until_next = (60 - minutes % 60) * MINUTE;
        assert!(wait <= until_next && wait + 15 * MINUTE > until_next, "after {minutes} minutes: {wait:?}");
    }
}

pub(crate) async fn rates_are_listed_with_the_time_of_their_next_token<F: Fixture>(f: F) {
    let db = f.database();
    let other = job().rule(Rate::new("mail", 1, MINUTE)).unwrap();
    enqueue_all(&f, [vec![rated("x"); 5], vec![rated("y"); 2], vec![other; 2]].concat()).await;
    assert_eq!(admit(db).await, 6, "three of x, two of y, one mail");
    let keys = db.operator.rate_keys(None, 10).await.unwrap();
    let of = |key: &RateKey| (format!("{} {}: {}", key.name, key.key, key.held), key.rule);
    let (api, mail) = (Rule::Rate { limit: 6, per: HOUR, burst: 3, on_full: OnFull::Wait }, Rule::rate(1, MINUTE));
    let expected = [(r#"api ["x"]: 2"#.to_owned(), api), ("mail []: 1".to_owned(), mail)];
    assert_eq!(keys.iter().map(of).collect::<Vec<_>>(), expected);
    let clock = now(db).await;
    assert!(keys.iter().all(|key| close(key.oldest.unwrap(), clock)), "{keys:?}");
    assert!(close(keys[0].next_token.unwrap(), clock + EVERY), "{keys:?}");
    assert!(close(keys[1].next_token.unwrap(), clock + MINUTE), "{keys:?}");
    let after = Some((keys[0].name.clone(), keys[0].key.clone()));
    assert_eq!(db.operator.rate_keys(after, 10).await.unwrap(), keys[1..]);
    assert_eq!(db.operator.rate_keys(None, 1).await.unwrap(), keys[..1]);
    assert!(db.operator.limit_keys(None, 10).await.unwrap().is_empty());
}

/// A worker sleeps until the time that a pass returns. Where nothing may start, this must not be now.
pub(crate) async fn no_pass_follows_at_once_where_nothing_may_start<F: Fixture>(f: F) {
    let db = f.database();
    enqueue_all(&f, vec![rated("x"); 6]).await;
    enqueue_all(&f, vec![limited("y"); 6]).await;
    assert_eq!(admit(db).await, 5);
    let_pass(&f, HOUR).await;
    // How many passes a worker makes before it sleeps, and whether it then waits for a token.
    let passes = async || {
        for number in 0..9 {
            let found = db.storage.admit(number == 0).await.unwrap();
            assert_eq!(found.admitted, 0);
            if !found.more && found.next_token.is_none_or(|time| !time.is_zero()) {
                return (number, found.next_token);
            }
        }
        panic!("a worker would not sleep");
    };
    assert!(db.operator.freeze("anna", "for a test").await.unwrap());
    assert_eq!(passes().await, (0, None), "frozen");
    assert!(db.operator.thaw("anna").await.unwrap());
    db.operator.pause_kind("a", "anna", None).await.unwrap();
    assert!(passes().await.0 <= 3, "a paused kind");
    db.operator.resume_kind("a", "anna").await.unwrap();
    db.operator.pause_queue("default", "anna", None).await.unwrap();
    assert!(passes().await.0 <= 3, "a paused queue");
    db.operator.resume_queue("default", "anna").await.unwrap();
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 3);
    assert_eq!(passes().await, (0, None), "a full key");
}
