//! SQL and Rust make the same keys, or both refuse: for the common cases, and for random JSON.

use diesel::sql_types::{Array, Nullable, Text};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _};
use diesel_jobs_core::{Limit, NewJob};
use diesel_jobs_storage::Enqueue as _;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

use super::Postgres;
use crate::client::Number;
use crate::fixture::run;
use crate::keys::{Case, cases, forms};

async fn session(f: &Postgres) -> AsyncPgConnection {
    AsyncPgConnection::establish(&f.url).await.unwrap()
}

#[derive(diesel::QueryableByName)]
struct Key {
    #[diesel(sql_type = Text)]
    key: String,
}

/// The key that SQL makes, or why it refuses. Without names: of all arguments.
async fn sql_key(conn: &mut AsyncPgConnection, args: &str, by: Option<&[&str]>) -> Result<String, String> {
    let key = diesel::sql_query("select jobs.key('a', $1::json, $2) as key")
        .bind::<Text, _>(args)
        .bind::<Nullable<Array<Text>>, _>(by);
    key.get_result(conn).await.map(|Key { key }| key).map_err(|problem| problem.to_string())
}

#[test]
fn sql_and_rust_make_the_same_key_of_each_case_or_both_refuse_it() {
    run::<Postgres, _>(async |f: Postgres| {
        let conn = &mut session(&f).await;
        for Case { json, refused, .. } in cases() {
            for (kind, args, rule) in forms(&json) {
                let by = if rule.by.is_empty() { "{}" } else { "{k}" };
                let ours = NewJob::raw(kind, args.clone()).unique(rule);
                let enqueue = format!("select jobs.enqueue('{kind}', $1::json, unique_by => '{by}') as number");
                let theirs: Result<Number, _> =
                    diesel::sql_query(enqueue).bind::<Text, _>(&args).get_result(conn).await;
                match (ours, theirs) {
                    (Ok(job), Ok(Number { number })) => {
                        let found = job.enqueue(conn).await.unwrap();
                        assert_eq!((found.is_existing(), found.id().0), (true, number), "{args}");
                    }
                    (Err(ours), Err(theirs)) => {
                        let words = refused.as_deref().unwrap_or("127 levels deep");
                        assert!(theirs.to_string().contains(words), "{args}: {theirs}");
                        assert!(ours.to_string().contains(words) || ours.to_string().contains("127 levels"), "{ours}");
                    }
                    (ours, theirs) => panic!("{args}: {:?}, {:?}", ours.map(drop), theirs.map(|row| row.number)),
                }
            }
        }
    });
}

/// Each of them makes its keys in the same function.
#[test]
fn limits_rates_sequences_and_tenants_of_sql_have_the_keys_of_rust() {
    run::<Postgres, _>(async |f: Postgres| {
        let conn = &mut session(&f).await;
        let value = r#"{"b": [1.50, -0, 36893488147419103233], "a": "\u0041\/"}"#;
        let value_of_rust: Box<serde_json::value::RawValue> = serde_json::from_str(value).unwrap();
        let key = NewJob::raw("a", "{}").rule(Limit::new("x", 1).key(value_of_rust)).unwrap().rules[0].key.clone();
        assert_eq!(key, r#"[{"a":"A/","b":[1.5,0,36893488147419103233]}]"#);
        let limits = r#"[{"concurrency": 1, "by": ["k"]}, {"rate": 1, "per": "1s", "by": ["k"], "limit_name": "x"}]"#;
        for (options, path) in [
            ("concurrency => 1, by => '{k}'".to_owned(), "{0,key}"),
            ("sequence => 'halt', by => '{k}'".to_owned(), "{0,key}"),
            ("rate => 1, per => '1s', by => '{k}'".to_owned(), "{0,key}"),
            ("concurrency => 1, fair_by => '{k}'".to_owned(), "{0,tenant}"),
            ("unique_by => '{k}', on_conflict => 'run_again'".to_owned(), "{0,key}"),
            (format!("limits => '{limits}'"), "{0,key}"),
            (format!("limits => '{limits}'"), "{1,key}"),
        ] {
            let args = format!(r#"{{"k": {value}}}"#);
            let _: Vec<Number> = diesel::sql_query(format!("select jobs.enqueue('a', $1::json, {options}) as number"))
                .bind::<Text, _>(&args)
                .load(conn)
                .await
                .unwrap();
            let last = format!("select rules #>> '{path}' as key from jobs.held order by id desc limit 1");
            let made: Key = diesel::sql_query(last).get_result(conn).await.unwrap();
            assert_eq!(made.key, key, "{options}");
        }
    });
}

/// Only the text of a key is limited to what a database can store.
#[test]
fn a_nul_beside_the_key_is_no_problem() {
    run::<Postgres, _>(async |f: Postgres| {
        let conn = &mut session(&f).await;
        for args in [
            r#"{"k": "\\u0000", "x\u0000": "\\\u0000\u0000"}"#,
            r#"{"\u0000": {"k": 2}, "k": "\\u0000"}"#,
            r#"{"k": "\u0000", "k": "\\u0000"}"#,
        ] {
            assert_eq!(sql_key(conn, args, Some(&["k"])).await.as_deref(), Ok(r#"["\\u0000"]"#), "{args}");
            assert!(sql_key(conn, args, None).await.unwrap_err().contains("NUL character"), "{args}");
            assert!(sql_key(conn, args, Some(&["x\u{1}"])).await.is_err(), "{args}");
        }
    });
}

/// A text of JSON, with spaces, escapes and numbers as people and programs write them.
fn any_json() -> impl Strategy<Value = String> {
    let space = prop::sample::select(vec!["", "", "", " ", "\n\t", " \r "]);
    let digits = |most: usize| {
        prop::collection::vec(0..10_u8, 1..most).prop_map(|all| all.iter().map(u8::to_string).collect::<String>())
    };
    let whole = prop_oneof![
        Just("0".to_owned()),
        (1..10_u8, digits(30)).prop_map(|(first, rest)| format!("{first}{rest}")),
        any::<u128>().prop_map(|n| n.to_string()),
        any::<u8>().prop_map(|n| n.to_string())
    ];
    let fraction =
        prop_oneof![Just(String::new()), Just(".0".to_owned()), digits(20).prop_map(|digits| format!(".{digits}"))];
    let exponent = prop_oneof![3 => Just(String::new()), 1 => (prop::sample::select(vec!["e", "E", "e+", "E-", "e-", "e0"]), 0..1200_u32).prop_map(|(e, n)| format!("{e}{n}"))];
    let number = (prop::sample::select(vec!["", "-"]), whole, fraction, exponent)
        .prop_map(|(minus, whole, fraction, exponent)| format!("{minus}{whole}{fraction}{exponent}"));
    let float = prop_oneof![
        any::<f64>().prop_filter_map("not a number", |n| n.is_finite().then(|| serde_json::to_string(&n).unwrap())),
        any::<f32>().prop_filter_map("not a number", |n| n.is_finite().then(|| serde_json::to_string(&n).unwrap()))
    ];
    let piece = prop_oneof![
        4 => any::<char>().prop_map(|c| serde_json::to_string(&c).map(|text| text[1..text.len() - 1].to_owned()).unwrap()),
        2 => any::<char>().prop_map(|c| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect::<String>()),
        2 => "[a-zA-Z0-9 ]{0,4}",
        1 => prop::sample::select(vec!["\\/", "\\b", "\\\\", "\\\"", "\\\\u0000", "\\u0001", "\\u0041", "\u{7f}", "\u{fffd}"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["\\u0000", "\\ud800", "\\uDC00", "\\uD83d\\udE00"]).prop_map(str::to_owned),
    ];
    let text = prop::collection::vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()));
    let word = prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned);
    let leaf = prop_oneof![4 => number, 1 => float, 4 => text.clone(), 1 => word];
    leaf.prop_recursive(5, 24, 5, move |inner| {
        let (before, after) = (space.clone(), space.clone());
        let item = (before, inner, after).prop_map(|(before, value, after)| format!("{before}{value}{after}"));
        let name = prop_oneof!["\"[ab]\"", Just("\"\\u0061\"".to_owned()), text.clone()];
        let field = (space.clone(), name, item.clone())
            .prop_map(|(space, name, value)| format!("{space}{name}{space}:{value}"));
        prop_oneof![
            prop::collection::vec(item, 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(field, 0..5).prop_map(|fields| format!("{{{}}}", fields.join(","))),
        ]
    })
}

#[test]
fn sql_and_rust_make_the_same_key_of_random_json_or_both_refuse_it() {
    run::<Postgres, _>(async |f: Postgres| {
        let conn = &mut session(&f).await;
        let mut runner = TestRunner::deterministic();
        let (mut keys, mut refused) = (0, 0);
        for _ in 0..Config::default().cases {
            let json = any_json().new_tree(&mut runner).unwrap().current();
            for (kind, args, rule) in forms(&json) {
                let by = (!rule.by.is_empty()).then_some(rule.by);
                let ours = NewJob::raw(kind, args.clone()).unique(rule).map(|job| job.unique.unwrap().key);
                let theirs = sql_key(conn, &args, by).await;
                match (ours, theirs) {
                    (Ok(ours), Ok(theirs)) => {
                        assert_eq!(ours, theirs, "{args}");
                        keys += 1;
                    }
                    (Err(_), Err(_)) => refused += 1,
                    (ours, theirs) => panic!("{args}: {ours:?}, {theirs:?}"),
                }
            }
        }
        assert!(keys > refused && refused > 0, "{keys} keys, {refused} refused");
    });
}
