//! The rules of jobs, from the enqueue to the stored form and back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::*;
use crate::key_problem::KeyProblem;
use crate::storage::ScheduledJob;
use crate::{IntoNewJob as _, Job, JobBuilder, JobOptions, RunAt, flags};

const SECOND: Duration = Duration::from_secs(1);
const BY: KindRule = KindRule::concurrency("stripe", 2).by(&["account", "region"]);

#[derive(Serialize, Deserialize)]
struct Charge {
    account: i64,
}

impl Job for Charge {
    const KIND: &'static str = "charge";
    const OPTIONS: JobOptions = JobOptions::new()
        .rules(&[KindRule::concurrency("account", 3).by(&["account"]), KindRule::concurrency("stripe", 10)]);
}

#[derive(Serialize, Deserialize)]
struct Plain {
    account: i64,
}

impl Job for Plain {
    const KIND: &'static str = "plain";
}

#[derive(Serialize, Deserialize)]
struct Report {
    tenant: i64,
    region: Option<String>,
}

impl Job for Report {
    const KIND: &'static str = "report";
    const OPTIONS: JobOptions =
        JobOptions::new().rules(&[KindRule::concurrency("report", 10).fair_by(&["tenant", "region"])]);
}

const CHARGE: Charge = Charge { account: 7 };
const PLAIN: Plain = Plain { account: 7 };

fn report() -> Report {
    Report { tenant: 7, region: None }
}

fn rules(job: impl Into<JobBuilder>) -> Rules {
    job.into().into_new_job().unwrap().rules
}

fn refused(job: impl Into<JobBuilder>) -> String {
    job.into().into_new_job().unwrap_err().to_string()
}

fn names(rules: &Rules) -> Vec<&str> {
    rules.iter().map(|rule| &*rule.name).collect()
}

/// The stored form and the flags, after they were read again.
#[track_caller]
fn stored(job: impl Into<JobBuilder>) -> (String, i32) {
    let rules = rules(job);
    let stored = rules.to_stored().unwrap();
    assert_eq!(Rules::read(stored.json.as_bytes()).unwrap(), rules);
    assert_eq!(Rules::new(rules.to_vec()).as_ref(), Ok(&rules));
    (stored.json, stored.flags)
}

#[test]
fn the_key_is_the_list_of_the_values() {
    let rule = BY.of(r#"{"region": "e\u0075 \"1\"", "x": 1.5, "account": -7}"#).unwrap();
    assert_eq!((&*rule.name, &*rule.key, rule.rule.most()), ("stripe", r#"[-7,"eu \"1\""]"#, Some(2)));
    assert_eq!(KindRule::concurrency("all", 1).of("[]").unwrap().key, "[]");
    assert_eq!(BY.of(r#"{"account": 1}"#), Err(KeyProblem::Missing("region".to_owned()).into()));
    assert_eq!(BY.of("[1]"), Err(KeyProblem::NoObject.into()));
    let values = Limit::new("a", 1).key(u128::MAX).key(1.50).key((1, "x")).key(Some(Unset {}));
    assert_eq!(rules(PLAIN.concurrency(values))[0].key, r#"[340282366920938463463374607431768211455,1.5,[1,"x"],{}]"#);
}

#[derive(Serialize)]
struct Unset {}

#[test]
fn a_long_key_is_hashed() {
    let key = |text: String| rules(PLAIN.concurrency(Limit::new("stripe", 1).key(text)))[0].key.clone();
    let long = key("x".repeat(200_000));
    assert!(long.starts_with("sha256:") && long.len() == 71, "{long}");
    assert_ne!(long, key("y".repeat(200_000)));
    assert_eq!(key("x".repeat(196)).len(), 200);
}

#[test]
fn each_sort_of_rule_is_stored_with_its_job() {
    let limit = stored(PLAIN.concurrency(Limit::new("own", 1).key("x").on_full(OnFull::CancelOldest)));
    let json = r#"[{"name":"own","key":"[\"x\"]","rule":{"concurrency":{"most":1,"on_full":"cancel_oldest"}}}]"#;
    assert_eq!(limit, (json.to_owned(), flags::LIMITED | flags::ON_FULL));
    let sequence = stored(PLAIN.sequence(Sequence::new("own").key("x")));
    let json = r#"[{"name":"own","key":"[\"x\"]","rule":{"sequence":{"on_discard":"halt"}}}]"#;
    assert_eq!(sequence, (json.to_owned(), flags::LIMITED | flags::SEQUENCE));
    let rate = stored(PLAIN.rate(Rate::new("own", 1000, SECOND).key("x").on_full(OnFull::Discard)));
    let json = r#"[{"name":"own","key":"[\"x\"]","rule":{"rate":{"limit":1000,"per":1000000,"burst":100,"on_full":"discard"}}}]"#;
    assert_eq!(rate, (json.to_owned(), flags::LIMITED | flags::RATE | flags::ON_FULL));
    let fair = stored(report());
    let json = r#"[{"name":"report","key":"[]","rule":{"concurrency":{"most":10}},"tenant":"[7,null]"}]"#;
    assert_eq!(fair, (json.to_owned(), flags::LIMITED | flags::FAIR));
}

#[test]
fn several_rules_are_stored_with_their_lane() {
    let json = r#"[{"name":"account","key":"[7]","rule":{"concurrency":{"most":3}}},{"name":"stripe","key":"[]","rule":{"concurrency":{"most":10}}}]"#;
    assert_eq!(stored(CHARGE), (json.to_owned(), flags::LIMITED | flags::SEVERAL));
    let rules = rules(CHARGE);
    let stored = rules.to_stored().unwrap();
    let lane = r#"["account","[7]","stripe","[]"]"#;
    assert_eq!((&*stored.name, &*stored.key, stored.most, stored.lane.as_deref()), ("", lane, 1, Some(lane)));
}

#[test]
fn a_sequence_comes_first() {
    let job = || CHARGE.sequence(Sequence::new("orders").key(1).on_discard(OnDiscard::Skip));
    assert_eq!(stored(job()).1, flags::LIMITED | flags::SEVERAL | flags::SEQUENCE);
    let rules = rules(job());
    assert_eq!(names(&rules), ["orders", "account", "stripe"]);
    let stored = rules.to_stored().unwrap();
    assert_eq!((&*stored.name, &*stored.key, stored.most), ("orders", "[1]", 1));
    assert_eq!(rules.lane(), self::rules(CHARGE).lane());
}

#[test]
fn an_own_rule_replaces_those_of_the_kind_of_the_same_sort() {
    assert_eq!(names(&rules(CHARGE.concurrency(Limit::new("bank", 1)))), ["bank"]);
    let rate = || Rate::new("calls", 10, SECOND);
    assert_eq!(names(&rules(CHARGE.rate(rate()))), ["account", "stripe", "calls"]);
    let all = CHARGE.concurrency(Limit::new("a", 1)).concurrency(Limit::new("b", 1)).rate(rate());
    assert_eq!(names(&rules(all)), ["a", "b", "calls"]);
    let own = rules(report().concurrency(Limit::new("own", 1).key("x").fair_by(8).fair_by("eu")));
    assert_eq!((own[0].key.as_str(), own[0].tenant.as_deref()), (r#"["x"]"#, Some(r#"[8,"eu"]"#)));
    assert_eq!(rules(report().concurrency(Limit::new("own", 1)))[0].tenant, None);
}

#[test]
fn the_order_of_the_rules_does_not_change_the_lane() {
    let of = |names: [&str; 2]| {
        rules(PLAIN.concurrency(Limit::new(names[0], 1)).concurrency(Limit::new(names[1], 1))).lane()
    };
    assert_eq!(of(["a", "b"]), of(["b", "a"]));
    let long = of([&"a".repeat(150), &"b".repeat(150)]);
    assert!(long.starts_with("sha256:") && long.len() == 71, "{long}");
}

#[test]
fn the_jobs_of_rows_have_the_rules_of_their_kind() {
    let rows = crate::without_arguments::<Charge>().of_rows().unwrap();
    let jobs = rows.with_args(vec![r#"{"account":7}"#.to_owned(), r#"{"account":8}"#.to_owned()]).unwrap();
    let keys: Vec<_> = jobs.iter().map(|job| &*job.rules[0].key).collect();
    assert_eq!((rows.need_more(), keys), (true, vec!["[7]", "[8]"]));
    assert!(rows.with_args(vec!["{}".to_owned()]).unwrap_err().to_string().contains("`account`"));
}

/// The job of a schedule has no arguments. All such jobs have one key, and one tenant.
#[test]
fn the_job_of_a_schedule_has_the_rules_of_its_kind() {
    let at = |kind, options| ScheduledJob::default().at(kind, options, RunAt::Now).rules;
    let charges = at("charge", &Charge::OPTIONS);
    assert_eq!(charges.iter().map(|rule| &*rule.key).collect::<Vec<_>>(), ["[]", "[]"]);
    assert_eq!(at("report", &Report::OPTIONS)[0].tenant.as_deref(), Some("[]"));
}

#[test]
fn what_cannot_be_combined_is_refused() {
    let twice = refused(CHARGE.rate(Rate::new("stripe", 1, SECOND)));
    assert!(twice.starts_with("job `charge`: two of its rules have the name `stripe`"), "{twice}");
    let sequences = refused(CHARGE.sequence(Sequence::new("a")).sequence(Sequence::new("b")));
    assert_eq!(sequences, "job `charge`: a job is in one sequence at most");
    let many = (0..5).fold(JobBuilder::new(PLAIN), |job, number| job.concurrency(Limit::new(number.to_string(), 1)));
    assert_eq!(refused(many), "job `plain`: a job has at most 4 rules, not 5");
    let full = || Limit::new("a", 1).on_full(OnFull::Discard);
    let several = "job `plain`: `on_full` is for a job with one limit or rate; a job with several of them, or with a sequence, waits";
    assert_eq!(refused(PLAIN.concurrency(full()).sequence(Sequence::new("orders"))), several);
    assert_eq!(refused(PLAIN.concurrency(full()).rate(Rate::new("calls", 10, SECOND))), several);
    for several in [
        report().rate(Rate::new("calls", 1, SECOND)),
        report().sequence(Sequence::new("orders")),
        report().concurrency(Limit::new("a", 1).fair_by(1)).concurrency(Limit::new("b", 1)),
    ] {
        let problem = refused(several);
        assert!(problem.starts_with("job `report`: `fair` is for jobs with one `concurrency`"), "{problem}");
    }
    let full = refused(report().concurrency(Limit::new("a", 1).fair_by(1).on_full(OnFull::Discard)));
    assert!(full.starts_with("job `report`: `fair` is for jobs that wait"), "{full}");
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let number = refused(PLAIN.concurrency(Limit::new("bank", 0)));
    assert_eq!(number, "job `plain`: a limit allows 1 to 10000 jobs at once, not 0");
    for limit in [Limit::new("a", 1).key("\0"), Limit::new("a", 1).fair_by("\0")] {
        let nul = refused(PLAIN.concurrency(limit));
        assert!(nul.starts_with("job `plain`: its key has a text with a NUL character"), "{nul}");
    }
    let no_json = refused(PLAIN.concurrency(Limit::new("a", 1).key(std::collections::BTreeMap::from([((), 1)]))));
    assert!(no_json.contains("cannot be written as JSON"), "{no_json}");
    let no_number = refused(PLAIN.concurrency(Limit::new("a", 1).key(Some(f64::NAN))));
    assert!(
        no_number.ends_with("the value of its key cannot be written as JSON: JSON cannot express NaN"),
        "{no_number}"
    );
    let of = |name: &str, key: &str, tenant: Option<&str>| {
        let (rule, tenant) = (Rule::concurrency(1), tenant.map(str::to_owned));
        Rules::new(vec![JobRule { name: name.to_owned(), key: key.to_owned(), rule, tenant }]).map(drop)
    };
    assert_eq!(of("", "[]", None), Err(RuleProblem::Name));
    let long = format!("[\"{}\"]", "x".repeat(197));
    for key in ["", &long, "\0", "x", "{}", "[1.0]", "[ 1]", "sha256:ab"] {
        assert_eq!(of("a", key, None), Err(RuleProblem::StoredKey));
        assert_eq!(of("a", "[]", Some(key)), Err(RuleProblem::StoredKey));
    }
    let hash = format!("sha256:{}", "0a".repeat(32));
    assert_eq!((of("a", "[]", Some("[7]")), of("a", &hash, None)), (Ok(()), Ok(())));
}

#[test]
fn a_written_rule_has_no_unknown_parts() {
    let read = |rule: &str| {
        serde_json::from_str::<JobRule>(&format!(r#"{{"name":"a","key":"[]","rule":{rule}}}"#)).map(|read| read.rule)
    };
    assert_eq!(read(r#"{"concurrency":{"most":3}}"#).unwrap(), Rule::concurrency(3));
    assert_eq!(read(r#"{"sequence":{"on_discard":"halt"}}"#).unwrap(), Rule::Sequence { on_discard: OnDiscard::Halt });
    let rate = read(r#"{"rate":{"limit":10,"per":1000000,"burst":1}}"#).unwrap();
    assert_eq!(rate, Rule::rate(10, SECOND));
    for unknown in [
        r#"{"concurrency":{"most":3,"mots":3}}"#,
        r#"{"sequence":{"on_discard":"halt","most":1}}"#,
        r#"{"rate":{"limit":10,"per":1000000,"burst":1,"x":1}}"#,
        r#"{"concurrency":{"most":3},"rate":{"limit":10,"per":1000000,"burst":1}}"#,
        r#"{"limit":{"most":3}}"#,
    ] {
        assert!(read(unknown).is_err(), "{unknown}");
    }
}
