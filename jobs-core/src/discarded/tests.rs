use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::rules::{Limit, Rate, Sequence};
use crate::unique::{OnConflict, Unique};

#[derive(Serialize, Deserialize)]
struct Alert {
    discarded: Discarded,
}

impl crate::Job for Alert {
    const KIND: &'static str = "alert";
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Ticket {
    account: u128,
    about: Discarded,
}

impl crate::Job for Ticket {
    const KIND: &'static str = "ticket";
}

const SECOND: Duration = Duration::from_secs(1);

fn about() -> Discarded {
    Discarded {
        id: JobId(7),
        kind: "charge".to_owned(),
        queue: "default".to_owned(),
        attempt: 1,
        max_attempts: 1,
        failure: FailureKind::Error,
        error: "never".to_owned(),
    }
}

#[test]
fn no_digit_of_another_argument_is_lost() {
    let account = u128::from(u64::MAX) + 2;
    let ticket: OnDiscarded = |about| JobBuilder::new(Ticket { account: u128::from(u64::MAX) + 2, about });
    let rule = DiscardRule::new("charge", ticket).unwrap();
    assert_eq!((&*rule.args, &*rule.argument), (r#"{"account":18446744073709551617}"#, "about"));
    let about = about();
    let job = rule.job(&about).unwrap();
    assert_eq!(serde_json::from_str::<Ticket>(&job.args).unwrap(), Ticket { account, about });
}

fn problem(on_discarded: OnDiscarded) -> String {
    DiscardRule::new("charge", on_discarded).unwrap_err().to_string()
}

#[test]
fn a_key_must_be_the_same_for_all_discarded_jobs() {
    let two: OnDiscarded = |discarded| {
        let kind = discarded.kind.clone();
        let alert = JobBuilder::new(Alert { discarded });
        alert.concurrency(Limit::new("pager", 2).key("on call")).rate(Rate::new("calls", 9, SECOND).key(kind))
    };
    let rule = DiscardRule::new("charge", two).unwrap();
    assert_eq!(rule.rules.iter().map(|rule| &*rule.key).collect::<Vec<_>>(), [r#"["on call"]"#, r#"["charge"]"#]);

    let of_all: OnDiscarded = |discarded| {
        let key = discarded.clone();
        JobBuilder::new(Alert { discarded }).sequence(Sequence::new("alerts").key(key))
    };
    let of_a_field: OnDiscarded = |discarded| {
        let key = discarded.queue.clone();
        let alert = JobBuilder::new(Alert { discarded });
        alert.concurrency(Limit::new("pager", 2)).rate(Rate::new("alerts", 9, SECOND).key(key))
    };
    let of_a_part: OnDiscarded = |discarded| {
        let shard = discarded.id.0 % 3;
        JobBuilder::new(Alert { discarded }).concurrency(Limit::new("alerts", 2).key(shard))
    };
    let of_each_call: OnDiscarded = |discarded| {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        JobBuilder::new(Alert { discarded }).concurrency(Limit::new("alerts", 2).key(call))
    };
    let tenant: OnDiscarded = |discarded| {
        let tenant = discarded.error.clone();
        JobBuilder::new(Alert { discarded }).concurrency(Limit::new("alerts", 2).fair_by(tenant))
    };
    for varies in [of_all, of_a_field, of_a_part, of_each_call, tenant] {
        let problem = problem(varies);
        assert!(
            problem.starts_with("the key or the tenant of its rule `alerts` is made of the `Discarded`"),
            "{problem}"
        );
    }

    let argument: OnDiscarded = |about| {
        let account = about.id.0.unsigned_abs().into();
        JobBuilder::new(Ticket { account, about }).concurrency(Limit::new("alerts", 2).key(account))
    };
    let problem = problem(argument);
    assert!(problem.starts_with("its `new` uses the `Discarded` for more than the argument `about`"), "{problem}");
}

#[test]
fn a_unique_job_is_refused_with_the_reason() {
    let unique: OnDiscarded = |discarded| JobBuilder::new(Alert { discarded }).unique(Unique::new());
    let debounced: OnDiscarded =
        |discarded| JobBuilder::new(Alert { discarded }).unique(Unique::debounce(SECOND, SECOND));
    let again: OnDiscarded =
        |discarded| JobBuilder::new(Alert { discarded }).unique(Unique::new().on_conflict(OnConflict::RunAgain));
    for unique in [unique, debounced, again] {
        let problem = problem(unique);
        assert!(problem.starts_with("it must not be unique: a worker that discards a job would wait"), "{problem}");
    }
}

#[test]
fn the_job_has_the_rules_and_expires() {
    let expiring: OnDiscarded =
        |discarded| JobBuilder::new(Alert { discarded }).concurrency(Limit::new("pager", 2)).expires(SECOND);
    let rule = DiscardRule::new("charge", expiring).unwrap();
    let job = rule.job(&about()).unwrap();
    assert_eq!((job.rules.len(), job.expires), (1, Some(SECOND)));
    assert_eq!(job.rules, rule.rules);
}

#[test]
fn a_panic_of_new_is_an_error_that_says_so() {
    let always: OnDiscarded = |_| panic!("no pager");
    let problem = DiscardRule::new("charge", always).unwrap_err();
    assert!(matches!(&problem, InvalidDiscardRule::Panicked(_)), "{problem}");
    let text = problem.to_string();
    assert!(text.starts_with("its `new`, called with an example, panicked") && text.ends_with(": no pager"), "{text}");
    let at_the_second: OnDiscarded = |discarded| {
        assert!(discarded.attempt > 1, "a first attempt");
        JobBuilder::new(Alert { discarded })
    };
    let problem = DiscardRule::new("charge", at_the_second).unwrap_err().to_string();
    assert!(problem.ends_with(": a first attempt"), "{problem}");
}
