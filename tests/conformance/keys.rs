//! What a key is made of: any JSON value, in one canonical text. The cases are those of the unit test in
//! `jobs-core/src/canonical`.

use std::collections::HashMap;

use diesel_jobs_core::{JobId, Limit, NewJob, Unique};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bench::*;
use crate::fixture::Fixture;

/// The form of one JSON text in a key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) json: String,
    pub(crate) canonical: Option<String>,
    pub(crate) refused: Option<String>,
}

pub(crate) fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../jobs-core/src/canonical/cases.json")).unwrap()
}

pub(crate) const BY: Unique = Unique::new().by(&["k"]);

/// The rules for a key of the whole value, and of the value as one of the arguments, with the kind and the arguments of
/// each.
pub(crate) fn forms(json: &str) -> [(&'static str, String, Unique); 2] {
    [("a", json.to_owned(), Unique::new()), ("b", format!(r#"{{"other": "\u0000", "k" : {json} }}"#), BY)]
}

pub(crate) async fn equal_values_have_one_key_and_no_others<F: Fixture>(f: F) {
    let db = f.database();
    let mut client = f.client().await;
    let mut holders: HashMap<(&str, String), JobId> = HashMap::new();
    for Case { json, canonical, refused } in cases() {
        for (kind, args, rule) in forms(&json) {
            let made = NewJob::raw(kind, args.clone()).unique(rule);
            let Some(canonical) = canonical.clone() else {
                let problem = made.unwrap_err().to_string();
                // As a part of an object, a value is one level deeper.
                assert!(problem.contains(refused.as_deref().unwrap()), "{json}: {problem}");
                continue;
            };
            if kind == "b" && canonical.matches(['[', '{']).count() == 127 {
                assert!(made.unwrap_err().to_string().contains("127 levels deep"), "{json}");
                continue;
            }
            let job = made.unwrap();
            let key = job.unique.as_ref().unwrap().key.clone();
            let list = format!("[{canonical}]");
            assert_eq!(key == list, kind == "b" && list.len() <= 200, "{json}: {key}");
            let answer = client.answer(job).await.unwrap();
            let holder = *holders.entry((kind, canonical)).or_insert(answer.id());
            assert_eq!(answer.id(), holder, "{json}");
            if answer.is_new() {
                assert_eq!(record(db, holder).await.args, args, "no digit is lost");
            }
        }
    }
    let stored = format!("select count(*) as number from {}", F::table("unique_key"));
    assert_eq!(client.number(&stored).await, i64::try_from(holders.len()).unwrap(), "each other value has another key");
}

/// `.key(..)` takes what serde writes as JSON, and makes the key that the same argument makes.
pub(crate) async fn a_value_of_the_builder_and_an_argument_make_one_key<F: Fixture>(f: F) {
    let mut client = f.client().await;
    for Case { json, canonical, .. } in cases() {
        let Some(canonical) = canonical else { continue };
        let Ok(value) = serde_json::from_str::<Box<RawValue>>(&json) else { continue };
        let job = NewJob::raw("a", "{}").rule(Limit::new("x", 1).key(&value).fair_by(value)).unwrap();
        let limit = job.rules[0].clone();
        assert_eq!(limit.key == format!("[{canonical}]"), canonical.len() <= 198, "{json}: {}", limit.key);
        assert_eq!(limit.tenant.as_ref(), Some(&limit.key), "{json}");
        client.answer(job).await.unwrap();
        if let Ok(of_argument) = NewJob::raw("a", format!(r#"{{"k":{json}}}"#)).unique(BY) {
            assert_eq!(of_argument.unique.unwrap().key, limit.key, "{json}");
        }
    }
    let limit = Limit::new("x", 1).key(1_u128 << 64).key((1.50, -0.0)).key([Some("é"), None]);
    let job = NewJob::raw("a", "{}").rule(limit).unwrap();
    assert_eq!(job.rules[0].key, r#"[18446744073709551616,[1.5,0],["é",null]]"#);
}
