//! Tests of the checker: it accepts good runs with any mix of faults, and reports the matching violation for each
//! broken run.

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use uuid::Uuid;

use super::{Kind, Promise, check, story};
use crate::history::{
    CRASH, CommitOutcome, Effect, Ending, Enqueued, Event, Failure, Fault, Job, OpenTransaction, Record,
};

/// How an attempt ended that was not the last one.
#[derive(Clone, Copy, Debug)]
enum Step {
    Fail,
    Snooze,
    GivenBack,
    /// The worker was killed after the handler started.
    Crash,
    /// The worker was killed before the handler started.
    CrashWhilePrefetched,
    /// The worker was killed after the handler ended, before the finish was stored.
    CrashAtTheEnd,
}

const MAX_ATTEMPTS: u16 = 25;

/// Builds a good run, job by job.
struct Maker {
    record: Record,
    clock: DateTime<Utc>,
}

impl Maker {
    fn new() -> Self {
        Self { record: Record::default(), clock: DateTime::UNIX_EPOCH }
    }

    fn tick(&mut self) -> DateTime<Utc> {
        self.clock += TimeDelta::milliseconds(1);
        self.clock
    }

    fn say(&mut self, job: &Job, what: &str) {
        let at = self.tick();
        self.record.events.push(Event {
            number: job.number,
            job: job.id,
            lease: job.lease,
            attempt: i16::try_from(job.attempt).unwrap(),
            worker: job.worker.unwrap(),
            pid: 7,
            what: what.to_owned(),
            at,
        });
    }

    fn fail(&mut self, job: &Job, kind: &str, message: String) {
        let at = self.tick();
        let attempt = i16::try_from(job.attempt).unwrap();
        self.record.failures.push(Failure { job: job.id, attempt, kind: kind.to_owned(), message, at });
    }

    /// Adds the next job, with its attempts and its end.
    fn job(&mut self, transactional: bool, ends: Ending, steps: &[Step]) {
        let number = i64::try_from(self.record.enqueued.len()).unwrap() + 1;
        let mut job = Job {
            number,
            id: 1000 + number,
            state: "available".to_owned(),
            priority: 0,
            attempt: 0,
            crashes: 0,
            lease: 0,
            worker: None,
            run_at: self.clock,
            enqueued_at: self.tick(),
            finished_at: None,
        };
        let fails = steps.iter().filter(|step| matches!(step, Step::Fail)).count();
        let mut enqueued = Enqueued {
            number,
            job: Some(job.id),
            outcome: CommitOutcome::Acknowledged,
            ends,
            transactional,
            failures: u16::try_from(fails).unwrap(),
            max_attempts: MAX_ATTEMPTS,
        };
        for step in steps {
            self.step(&mut job, *step);
        }
        self.end(&mut job, &mut enqueued);
        self.record.enqueued.push(enqueued);
        self.record.jobs.push(job);
    }

    fn claim(&mut self, job: &mut Job) {
        self.tick();
        (job.lease, job.attempt, job.worker) = (job.lease + 1, job.attempt + 1, Some(Uuid::new_v4()));
    }

    fn step(&mut self, job: &mut Job, step: Step) {
        self.claim(job);
        if !matches!(step, Step::CrashWhilePrefetched) {
            self.say(job, "start");
        }
        match step {
            Step::Fail => {
                self.say(job, "fail");
                self.fail(job, "error", format!("planned, under lease {};", job.lease));
            }
            Step::Snooze => {
                self.say(job, "snooze");
                job.attempt -= 1;
            }
            Step::GivenBack => job.attempt -= 1,
            Step::CrashAtTheEnd => {
                self.say(job, "ok");
                self.fail(job, "crash", "worker died".to_owned());
            }
            Step::Crash | Step::CrashWhilePrefetched => self.fail(job, "crash", "worker died".to_owned()),
        }
    }

    fn end(&mut self, job: &mut Job, enqueued: &mut Enqueued) {
        self.claim(job);
        self.say(job, "start");
        match enqueued.ends {
            Ending::Completed => {
                // A transactional finish stores the time at which its transaction began.
                let begun = self.clock;
                self.say(job, "ok");
                job.finished_at = Some(if enqueued.transactional { begun } else { self.tick() });
                if enqueued.transactional {
                    self.record.effects.push(Effect {
                        number: job.number,
                        lease: job.lease,
                        worker: job.worker.unwrap(),
                    });
                }
            }
            Ending::Cancelled => {
                self.say(job, "cancel");
                self.fail(job, "cancelled", "planned".to_owned());
                job.finished_at = Some(self.tick());
            }
            Ending::CalledOff => {
                self.fail(job, "cancelled", "cancelled by an operator".to_owned());
                job.finished_at = Some(self.tick());
            }
            Ending::Discarded => {
                self.say(job, "fail");
                self.fail(job, "error", format!("planned, under lease {};", job.lease));
                job.finished_at = Some(self.tick());
                (enqueued.failures, enqueued.max_attempts) =
                    (enqueued.failures + 1, u16::try_from(job.attempt).unwrap());
            }
        }
        job.state = enqueued.ends.state().to_owned();
    }
}

/// Five jobs. 1 completes at its first attempt. 2 completes after a failure, a snooze, a release and a crash. 3 is
/// transactional and completes after a crash and a failure. 4 is cancelled after a crash. 5 is discarded. The enqueue
/// of number 6 was rolled back.
fn good() -> Record {
    let mut maker = Maker::new();
    maker.job(false, Ending::Completed, &[]);
    maker.job(false, Ending::Completed, &[Step::Fail, Step::Snooze, Step::GivenBack, Step::CrashWhilePrefetched]);
    maker.job(true, Ending::Completed, &[Step::CrashAtTheEnd, Step::Fail]);
    maker.job(false, Ending::Cancelled, &[Step::Crash]);
    maker.job(false, Ending::Discarded, &[Step::Fail]);
    let mut record = maker.record;
    let rolled_back =
        Enqueued { number: 6, job: Some(1006), outcome: CommitOutcome::RolledBack, ..record.enqueued[0].clone() };
    record.enqueued.push(rolled_back);
    record
}

/// Breaks the good run. The checker must report exactly one violation, of this kind, at this job.
#[track_caller]
fn objects(kind: Kind, number: Option<i64>, breaks: impl FnOnce(&mut Record)) {
    objects_to(Promise::default(), kind, number, breaks);
}

#[track_caller]
fn objects_to(promise: Promise, kind: Kind, number: Option<i64>, breaks: impl FnOnce(&mut Record)) {
    let mut record = good();
    breaks(&mut record);
    let found = check(&record, promise);
    assert_eq!(
        found.iter().map(|found| (found.kind, found.number)).collect::<Vec<_>>(),
        [(kind, number)],
        "{found:#?}"
    );
}

fn job(record: &mut Record, number: i64) -> &mut Job {
    record.jobs.iter_mut().find(|job| job.number == number).unwrap()
}

fn event<'r>(record: &'r mut Record, number: i64, what: &str) -> &'r mut Event {
    record.events.iter_mut().rfind(|event| event.number == number && event.what == what).unwrap()
}

#[test]
fn a_good_run_is_accepted() {
    assert_eq!(check(&good(), Promise::default()), []);
    assert!(story(&good(), 2).contains("under lease 1"), "{}", story(&good(), 2));
}

#[test]
fn a_lost_job_is_missed() {
    objects(Kind::Lost, Some(1), |record| record.jobs.retain(|job| job.number != 1));
    objects(Kind::Lost, Some(1), |record| {
        record.enqueued[0].outcome = CommitOutcome::Unknown;
        record.jobs.retain(|job| job.number != 1);
    });
}

#[test]
fn an_end_that_no_attempt_reported_is_a_loss() {
    objects(Kind::Lost, Some(1), |record| record.events.retain(|event| event.number != 1));
    objects(Kind::Lost, Some(4), |record| record.events.retain(|event| event.what != "cancel"));
    objects(Kind::Lost, Some(3), |record| record.effects.clear());
    objects(Kind::Lost, Some(5), |record| record.enqueued[4].ends = Ending::Completed);
}

#[test]
fn an_unknown_enqueue_may_have_happened_or_not() {
    let mut record = good();
    record.enqueued[0].outcome = CommitOutcome::Unknown;
    assert_eq!(check(&record, Promise::default()), []);
    record.jobs.retain(|job| job.number != 1);
    record.events.retain(|event| event.number != 1);
    assert_eq!(check(&record, Promise::default()), []);
}

#[test]
fn phantoms_are_seen() {
    let ghost = |record: &mut Record, number| {
        let of_first = Event { number, job: 1006, ..record.events[0].clone() };
        record.events.push(of_first);
    };
    objects(Kind::Phantom, Some(6), |record| ghost(record, 6));
    objects(Kind::Phantom, Some(77), |record| ghost(record, 77));
    objects(Kind::Phantom, Some(6), |record| {
        let mut back = record.jobs[0].clone();
        (back.number, back.id) = (6, 1006);
        for of_first in record.events.clone().iter().filter(|event| event.number == 1) {
            record.events.push(Event { number: 6, ..of_first.clone() });
        }
        record.jobs.push(back);
    });
    objects(Kind::Phantom, Some(1), |record| {
        let mutant = Job { id: 2000, ..record.jobs[0].clone() };
        record.jobs.push(mutant);
    });
    objects(Kind::Phantom, Some(1), |record| job(record, 1).enqueued_at += TimeDelta::seconds(1));
}

#[test]
fn a_second_effect_is_seen() {
    objects(Kind::DoubleEffect, Some(3), |record| record.effects.push(record.effects[0].clone()));
}

#[test]
fn stale_writes_are_seen() {
    // The effect of an attempt that lost its lease.
    objects(Kind::StaleWrite, Some(3), |record| record.effects[0].lease = 1);
    objects(Kind::StaleWrite, Some(3), |record| record.effects[0].worker = Uuid::new_v4());
    // The finish of a zombie was accepted for the newer lease. The attempt under that lease ended later, or never.
    objects(Kind::StaleWrite, Some(1), |record| event(record, 1, "ok").at += TimeDelta::seconds(1));
    objects(Kind::StaleWrite, Some(2), |record| event(record, 2, "ok").lease = 1);
    // The success of a zombie was accepted, and an attempt under a newer lease ran.
    objects(Kind::StaleWrite, Some(1), |record| {
        let mut later = event(record, 1, "start").clone();
        later.lease += 1;
        record.events.push(later);
    });
    // The failure of a zombie was counted for the attempt after it.
    objects(Kind::StaleWrite, Some(2), |record| record.failures[0].attempt += 1);
}

#[test]
fn two_attempts_under_one_lease_are_seen() {
    objects(Kind::SharedLease, Some(1), |record| {
        let again = Event { pid: 8, ..event(record, 1, "start").clone() };
        record.events.push(again);
    });
}

#[test]
fn a_claim_that_a_crash_undid_is_accepted_only_if_no_attempt_had_started() {
    let crashed = Promise { claims_may_be_forgotten: true, ..Promise::default() };
    let twice = |record: &mut Record, crash: TimeDelta, elsewhere: bool| {
        let first = event(record, 1, "start").clone();
        let again = Event { pid: first.pid + i32::from(elsewhere), ..first };
        record.faults.push(Fault { what: CRASH.to_owned(), pid: None, at: again.at + crash });
        record.events.push(again);
    };
    objects_to(crashed, Kind::SharedLease, Some(1), |record| twice(record, TimeDelta::milliseconds(1), true));
    objects_to(crashed, Kind::SharedLease, Some(1), |record| twice(record, TimeDelta::milliseconds(-1), false));
    let mut record = good();
    twice(&mut record, TimeDelta::milliseconds(-1), true);
    assert_eq!(check(&record, crashed), []);
}

/// The job waited again, and was called off before another claim.
#[test]
fn an_end_without_a_lease_is_accepted_after_a_claim_that_a_crash_undid() {
    let crashed = Promise { claims_may_be_forgotten: true, ..Promise::default() };
    let called_off = |record: &mut Record, crash: TimeDelta| {
        record.enqueued[0].ends = Ending::CalledOff;
        record.events.retain(|event| event.number != 1 || event.what == "start");
        let at = event(record, 1, "start").at;
        record.faults.push(Fault { what: CRASH.to_owned(), pid: None, at: at + crash });
        let job = job(record, 1);
        (job.state, job.attempt, job.lease, job.worker) = ("cancelled".to_owned(), 0, 0, None);
    };
    let beyond = |record: &mut Record| {
        called_off(record, TimeDelta::milliseconds(-1));
        record.events.iter_mut().filter(|event| event.number == 1).for_each(|event| event.lease += 1);
    };
    let before = |record: &mut Record| {
        called_off(record, TimeDelta::milliseconds(-1));
        let at = event(record, 1, "start").at;
        job(record, 1).finished_at = Some(at - TimeDelta::milliseconds(2));
    };
    objects_to(crashed, Kind::StaleWrite, Some(1), beyond);
    objects_to(crashed, Kind::StaleWrite, Some(1), before);
    objects_to(crashed, Kind::StaleWrite, Some(1), |record| called_off(record, TimeDelta::milliseconds(1)));
    objects_to(Promise::default(), Kind::StaleWrite, Some(1), |record| called_off(record, TimeDelta::milliseconds(-1)));
    let mut record = good();
    called_off(&mut record, TimeDelta::milliseconds(-1));
    assert_eq!(check(&record, crashed), []);
}

#[test]
fn attempts_are_counted() {
    objects(Kind::Attempts, Some(1), |record| job(record, 1).attempt += 1);
    objects(Kind::Attempts, Some(5), |record| record.enqueued[4].max_attempts = 1);
    objects(Kind::Attempts, Some(2), |record| {
        let at = record.failures.iter().position(|failure| failure.kind == "crash").unwrap();
        record.failures.remove(at);
    });
    // A crash consumed an attempt in a run that promises no crash.
    let gentle = Promise { no_attempt_consumed: true, ..Promise::default() };
    objects_to(gentle, Kind::Attempts, Some(2), |record| {
        record.enqueued[3].failures = 1;
        record.enqueued[2].failures = 2;
    });
}

#[test]
fn a_start_out_of_order_is_seen() {
    let exact = Promise { in_order: true, ..Promise::default() };
    assert_eq!(check(&good(), exact), []);
    objects_to(exact, Kind::Order, Some(1), |record| job(record, 2).priority = 1);
    objects_to(exact, Kind::Order, Some(1), |record| job(record, 1).run_at += TimeDelta::milliseconds(10));
}

#[test]
fn unfinished_jobs_and_open_transactions_are_seen() {
    objects(Kind::Stuck, Some(1), |record| {
        let job = job(record, 1);
        (job.state, job.finished_at) = ("running".to_owned(), None);
    });
    objects(Kind::OpenTransaction, None, |record| {
        record.open.push(OpenTransaction { pid: 9, query: "begin".to_owned(), seconds: 4.0 });
    });
}

#[test]
fn a_job_that_an_operator_cancels_needs_no_event_and_has_no_effect() {
    let mut maker = Maker::new();
    maker.job(true, Ending::CalledOff, &[Step::Fail]);
    let mut record = maker.record;
    assert_eq!(check(&record, Promise::default()), []);
    let effect = Effect { number: 1, lease: 2, worker: record.jobs[0].worker.unwrap() };
    record.effects.push(effect);
    assert_eq!(check(&record, Promise::default())[0].kind, Kind::StaleWrite);
    record.effects.clear();
    record.jobs[0].attempt += 1;
    assert_eq!(check(&record, Promise::default())[0].kind, Kind::Attempts);
    record.jobs[0].attempt -= 1;
    record.jobs[0].state = "completed".to_owned();
    assert_eq!(check(&record, Promise::default())[0].kind, Kind::Lost);
}

fn any_step() -> impl Strategy<Value = Step> {
    prop::sample::select(vec![
        Step::Fail,
        Step::Snooze,
        Step::GivenBack,
        Step::Crash,
        Step::CrashWhilePrefetched,
        Step::CrashAtTheEnd,
    ])
}

fn any_ending() -> impl Strategy<Value = Ending> {
    prop::sample::select(vec![Ending::Completed, Ending::Cancelled, Ending::Discarded, Ending::CalledOff])
}

proptest! {
    #[test]
    fn good_runs_are_accepted_whatever_happened(
        jobs in prop::collection::vec((any::<bool>(), any_ending(), prop::collection::vec(any_step(), 0..8)), 0..12)
    ) {
        let mut maker = Maker::new();
        for (transactional, ends, steps) in &jobs {
            maker.job(*transactional, *ends, steps);
        }
        let gentle = jobs.iter().all(|(.., steps)| !steps.iter().any(|step| matches!(step, Step::Crash | Step::CrashWhilePrefetched | Step::CrashAtTheEnd)));
        let promise = Promise { in_order: true, no_attempt_consumed: gentle, ..Promise::default() };
        prop_assert_eq!(check(&maker.record, promise), vec![]);
    }
}
