use super::*;
use crate::key_problem::KeyProblem;

const RULE: Unique = Unique::new().by(&["user", "region"]);

#[test]
fn the_key_is_the_list_of_the_values_or_the_hash_of_all_arguments() {
    let key = RULE.of("charge.v12".into(), r#"{"region": "eu", "x": 1.5, "user": 7}"#).unwrap();
    assert_eq!((&*key.name, &*key.key), ("charge", r#"[7,"eu"]"#));
    assert_eq!(RULE.of("charge.vip".into(), r#"{"region": "eu", "user": 7}"#).unwrap().name, "charge.vip");
    let all = |args: &str| Unique::new().of("charge".into(), args).unwrap().key;
    let one = all(r#"{"b": [1, {"d": null, "c": 2.5}], "a": "é\n"}"#);
    assert!(one.starts_with("sha256:"));
    assert_eq!(one, all(r#"{"a":"\u00e9\n","b":[1,{"c":2.5,"d":null}]}"#));
    assert_ne!(one, all(r#"{"a":"\u00e9\n","b":[{"c":2.5,"d":null},1]}"#));
}

#[test]
fn rules_that_cannot_be_are_refused() {
    let of = |rule: Unique| rule.of("a".into(), r#"{"user": 1, "region": 2}"#).unwrap_err();
    let seconds = Duration::from_secs;
    assert_eq!(of(RULE.within(Duration::ZERO)), UniqueProblem::Within);
    assert_eq!(of(RULE.within(Duration::MAX)), UniqueProblem::Within);
    assert_eq!(of(RULE.on_conflict(OnConflict::Replace(Replace::new()))), UniqueProblem::ReplacesNothing);
    for (quiet, max) in [(0, 1), (2, 1), (1, u64::MAX)] {
        assert_eq!(of(Unique::debounce(seconds(quiet), seconds(max))), UniqueProblem::Debounce);
    }
    let again = RULE.on_conflict(OnConflict::RunAgain);
    assert_eq!(of(again.until(Until::Started)), UniqueProblem::RunAgainStarted);
    assert_eq!(of(RULE.by(&["nobody"])), UniqueProblem::Key(KeyProblem::Missing("nobody".to_owned()).into()));
    assert_eq!(Unique::new().of("a".into(), "no json").unwrap_err(), UniqueProblem::Key(KeyProblem::NoJson.into()));
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Index {
    user: i64,
}

impl crate::Job for Index {
    const KIND: &'static str = "index";
    const OPTIONS: crate::JobOptions = crate::JobOptions::new()
        .unique(Unique::debounce(Duration::from_secs(5), Duration::from_secs(60)).by(&["user"]));
}

#[test]
fn a_job_has_the_rule_of_its_kind_or_its_own() {
    use crate::{IntoNewJob as _, Job as _, RunAt};
    let job = Index { user: 7 }.into_new_job().unwrap();
    assert_eq!((job.run_at, &*job.unique.unwrap().key), (RunAt::After(Duration::from_secs(5)), "[7]"));
    let job = Index { user: 7 }.unique(Unique::new()).into_new_job().unwrap();
    assert_eq!(job.run_at, RunAt::Now);
    let refused = Index { user: 7 }.unique(RULE).into_new_job().unwrap_err().to_string();
    assert!(refused.starts_with("job `index`: `by` names the argument `region`"), "{refused}");
    let rows = crate::without_arguments::<Index>().of_rows().unwrap();
    let of_row = rows.with_args(vec![r#"{"user":7}"#.to_owned()]).unwrap().remove(0);
    assert_eq!((rows.need_more(), of_row), (true, Index { user: 7 }.into_new_job().unwrap()));
    let again = Unique::new().by(&["user"]).on_conflict(OnConflict::RunAgain);
    let job = Index { user: 7 }.unique(again).into_new_job().unwrap();
    let [sequence] = &*job.rules else { panic!("{:?}", job.rules) };
    assert_eq!((&*sequence.name, &*sequence.key, sequence.rule.on_discard()), ("index", "[7]", Some(OnDiscard::Skip)));
    assert!(job.unique(Unique::new()).unwrap().rules.is_empty());
    let limit = crate::Limit::new("index", 1);
    for refused in [
        Index { user: 7 }.unique(again).concurrency(limit.clone()).into_new_job(),
        Index { user: 7 }.unique(again).into_new_job().unwrap().rule(limit.clone()),
        crate::NewJob::raw("index", r#"{"user":7}"#).rule(limit).unwrap().unique(again),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("`run_again` makes a sequence"), "{refused}");
    }
    let options = crate::JobOptions::new().unique(again);
    let scheduled = crate::storage::ScheduledJob::default().at("index", &options, RunAt::Now);
    assert!(scheduled.rules[0].rule.on_discard() == Some(OnDiscard::Skip));
    // A schedule has no arguments, and a conflict is no error there.
    let options = crate::JobOptions::new().unique(RULE.on_conflict(OnConflict::Error));
    let unique = crate::storage::ScheduledJob::default().at("index", &options, RunAt::Now).unique.unwrap();
    assert!(unique.rule.on_conflict == OnConflict::Keep && unique.key.starts_with("sha256:"));
}
