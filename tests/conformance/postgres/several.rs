//! Several limits of one job, on PostgreSQL alone: what SQL enqueues, and what the database refuses.

use diesel_jobs_core::{JobState, Limit, NewJob, OnDiscard, Rate, Sequence};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture as _, Port as _, run};
use crate::limiting::admit;

const LIMITS: &str = r#"[{"concurrency": 2, "by": ["x"], "limit_name": "account"}, {"rate": 10, "per": "1 second", "burst": 3, "limit_name": "calls"}]"#;

fn both() -> NewJob {
    let rate = Rate::new("calls", 10, std::time::Duration::from_secs(1)).burst(3);
    job().rule(Limit::new("account", 2).key(1)).unwrap().rule(rate).unwrap()
}

#[test]
fn sql_and_rust_make_the_same_limits() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let long = "n".repeat(190);
        let sequence = || Sequence::new("orders").key(1).on_discard(OnDiscard::Skip);
        let named = |name: &str| both().rule(Limit::new(name, 1)).unwrap();
        let further = |name: &str| {
            LIMITS.replacen(']', "] ", 1).trim_end_matches(']').to_owned()
                + &format!(r#", {{"concurrency": 1, "limit_name": "{name}"}}]"#)
        };
        for (ours, sql) in [
            (both(), format!("limits => '{LIMITS}'")),
            (
                both().rule(sequence()).unwrap(),
                format!("sequence => 'skip', by => '{{x}}', limit_name => 'orders', limits => '{LIMITS}'"),
            ),
            (named("b"), format!("limits => '{}'", further("b"))),
            (named(&long), format!("limits => '{}'", further(&long))),
        ] {
            let ours = ours.rules.to_stored().unwrap();
            client.execute(&format!("select jobs.enqueue('a', '{{\"x\": 1}}', {sql})")).await.unwrap();
            let same = format!(
                "select count(*) as number from jobs.held where rules::jsonb = $f${}$f$::jsonb and flags = {}
                   and limit_name = $f${}$f$ and limit_key = $f${}$f$",
                ours.json, ours.flags, ours.name, ours.key
            );
            assert_eq!(client.number(&same).await, 1, "{sql}: {}", ours.json);
            client.execute("delete from jobs.held").await.unwrap();
        }
    });
}

/// Rust makes the lane at an enqueue, for both databases, and SQL makes it when a job waits there again.
#[test]
fn sql_and_rust_make_the_same_lanes() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let limit = |name: &str| Limit::new(name.to_owned(), 1);
        let rate = |name: &str| Rate::new(name.to_owned(), 1, HOUR);
        let sequence = || Sequence::new("orders").key("x");
        // With the second name, the list has 200 bytes, and 201.
        let (longest, too_long) = ("n".repeat(182), "n".repeat(183));
        let cases = [
            job().rule(limit("a")).unwrap().rule(limit("b")).unwrap(),
            job().rule(limit("b")).unwrap().rule(limit("a")).unwrap(),
            job().rule(limit("a").key(7)).unwrap().rule(limit("b").key("x").key(true)).unwrap(),
            // Sorted by their bytes, whatever the collation is.
            job()
                .rule(limit("é"))
                .unwrap()
                .rule(limit("Z"))
                .unwrap()
                .rule(limit("a_"))
                .unwrap()
                .rule(limit("a b"))
                .unwrap(),
            job().rule(limit("\u{1f600}")).unwrap().rule(limit("\u{ffff}")).unwrap(),
            job().rule(limit("\"\\/\u{7f}\u{1}\t\n")).unwrap().rule(limit("\u{2028}").key("\"\\\u{8}\u{c}")).unwrap(),
            job().rule(limit("a")).unwrap().rule(rate("b")).unwrap(),
            job().rule(rate("a").key("x")).unwrap().rule(rate("b")).unwrap(),
            job().rule(sequence()).unwrap().rule(limit("b")).unwrap(),
            job().rule(rate("a")).unwrap().rule(sequence()).unwrap().rule(limit("b")).unwrap(),
            job().rule(limit("a")).unwrap().rule(limit(&longest)).unwrap(),
            job().rule(limit("a")).unwrap().rule(limit(&too_long)).unwrap(),
            job().rule(limit("a").key("k".repeat(300))).unwrap().rule(limit("b")).unwrap(),
        ];
        let mut hashes = 0;
        for case in cases {
            let stored = case.rules.to_stored().unwrap();
            let lane = stored.lane.unwrap();
            hashes += usize::from(lane.starts_with("sha256:"));
            let same = format!("select (jobs.lane($f${}$f$) = $f${lane}$f$)::integer::bigint as number", stored.json);
            assert_eq!(client.number(&same).await, 1, "{}: {lane}", stored.json);
        }
        assert_eq!(hashes, 1, "the second of the two long lists, and no other");
    });
}

#[test]
fn limits_that_cannot_be_are_refused() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for (limits, problem) in [
            ("{}", "must be a JSON list"),
            ("[1]", "must be a JSON object"),
            (r#"[{"concurrency": 1, "by": "x"}]"#, "a list of arguments"),
            ("[{}]", "has neither"),
            (r#"[{"limit": 5}]"#, "has `limit`; there are `concurrency`, `by`"),
            (r#"[{"concurrency": 0}]"#, "must be from 1 to 10000"),
            (r#"[{"concurrency": "x"}]"#, "one of the `limits` of job a has an impossible value: "),
            (r#"[{"rate": 1e99, "per": "1m"}]"#, "of job a has an impossible value"),
            (r#"[{"rate": 1, "per": "soon"}]"#, "of job a has an impossible value"),
            (r#"[{"rate": 99999999999, "per": "1m"}]"#, "of job a has an impossible value"),
            (r#"[{"concurrency": 1}, {"concurrency": 2}]"#, "two rules of job a have the name a"),
            (r#"[{"sequence": "halt"}, {"sequence": "halt", "limit_name": "b"}]"#, "in one sequence at most"),
            (
                r#"[{"concurrency": 1, "limit_name": "b"}, {"concurrency": 1, "limit_name": "c"}, {"concurrency": 1, "limit_name": "d"},
                    {"concurrency": 1, "limit_name": "e"}, {"concurrency": 1}]"#,
                "at most 4 are possible",
            ),
            (r#"[{"concurrency": 1, "by": ["y"]}]"#, "which job a does not have"),
        ] {
            let refused =
                client.execute(&format!("select jobs.enqueue('a', '{{\"x\": 1}}', limits => '{limits}')")).await;
            let text = format!("{refused:?}");
            assert!(text.contains(problem), "{limits}: {text}");
        }
        client.execute("select jobs.enqueue('a', '{}', limits => '[]')").await.unwrap();
        assert_eq!(client.number("select count(*) as number from jobs.ready where rules is null").await, 1);
        // SQL that writes to the table directly.
        let long = "x".repeat(201);
        let insert = |rules: &str| {
            format!(
                "insert into jobs.held (kind, args, flags, rules, limit_name, limit_key, most) values ('a', '{{}}', 129, '{rules}', 'x', 'k', 7)"
            )
        };
        let rule = |name: &str, key: &str, rule: &str| format!(r#"{{"name":"{name}","key":"{key}","rule":{rule}}}"#);
        let limit = rule("a", "[]", r#"{"concurrency":{"most":1}}"#);
        for second in [
            rule("b", "[]", r#"{"concurrency":{"most":0}}"#),
            rule("b", "[]", r#"{"concurrency":{}}"#),
            rule("b", "[]", r#"{"rate":{"limit":1,"per":0,"burst":1}}"#),
            rule("b", "[]", r#"{"rate":{"limit":0,"per":1000,"burst":1}}"#),
            rule("b", "[]", r#"{"rate":{"limit":1,"per":31622400000000,"burst":101}}"#),
            rule("b", "[]", r#"{"sequence":{"on_discard":"halt"}}"#),
            rule("b", &long, r#"{"concurrency":{"most":1}}"#),
            rule("", "[]", r#"{"concurrency":{"most":1}}"#),
            rule("b", "[]", "{}"),
            "7".to_owned(),
            format!("{limit},{limit},{limit},{limit}"),
        ] {
            let refused = client.execute(&insert(&format!("[{limit},{second}]"))).await.unwrap_err().to_string();
            assert!(refused.contains("are not possible"), "{second}: {refused}");
        }
        for rules in ["{}", "[]", &format!("[{limit}]"), &limit] {
            let refused = client.execute(&insert(rules)).await.unwrap_err().to_string();
            assert!(refused.contains("are not possible"), "{rules}: {refused}");
        }
        let other = rule("b", "[]", r#"{"concurrency":{"most":2}}"#);
        client.execute(&insert(&format!("[{limit},{other}]"))).await.unwrap();
        let in_lane = r#"select count(*) as number from jobs.held where limit_name = '' and limit_key = '["a","[]","b","[]"]' and most = 1"#;
        assert_eq!(client.number(in_lane).await, 1, "it waits in its lane, wherever it was written");
        let unnamed = client.execute("select jobs.enqueue('.v1', concurrency => 1)").await.unwrap_err();
        assert!(unnamed.to_string().contains("needs a `limit_name`"), "{unnamed}");
    });
}

#[test]
fn a_job_that_the_database_refuses_leaves_nothing_behind() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        client.execute(Postgres::UNHURRIED).await.unwrap();
        client
            .execute(
                "create function refuse() returns trigger language plpgsql as $$ begin
                    if new.kind = 'b' then raise exception 'not this one'; end if; return new; end $$",
            )
            .await
            .unwrap();
        client
            .execute("create trigger refuse before insert on jobs.ready for each row execute function refuse()")
            .await
            .unwrap();
        let of = |kind: &'static str, key: i32| {
            let account = Limit::new("account", 2).key(key);
            NewJob::raw(kind, "{}").rule(account).unwrap().rule(Limit::new("stripe", 3)).unwrap()
        };
        let ids = enqueue_all(&f, vec![of("b", 1), of("a", 1), of("b", 2), of("a", 2), of("a", 1)]).await;
        let found = db.storage.admit(false).await.unwrap();
        assert!(found.refused >= 1, "{found:?}");
        let mut admitted = found.admitted;
        for _ in 0..5 {
            admitted += admit(db).await;
        }
        assert_eq!(admitted, 3);
        for id in [ids[1], ids[3], ids[4]] {
            assert_eq!(state(db, id).await, JobState::Available);
        }
        assert_eq!(client.number("select count(*) as number from jobs.dead_letter").await, 2);
        assert_eq!(client.number("select count(*) as number from jobs.permit").await, 6);
        let kept = of("b", 1).rules.to_json().unwrap();
        let again = "select jobs.put_back(number) from jobs.dead_letter";
        client.execute("drop trigger refuse on jobs.ready").await.unwrap();
        client.execute(again).await.unwrap();
        let same = format!(
            "select count(*) as number from jobs.held where rules::jsonb = $f${kept}$f$::jsonb and flags = 129"
        );
        assert_eq!(client.number(&same).await, 1, "a job that is put back keeps its limits");
    });
}

#[test]
fn the_function_says_which_parameter_is_wrong() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        // An escaped NUL character is in the first two, and an escaped backslash in the last.
        let nul = "NUL character (\\u0000)";
        for (call, problem) in [
            (r#"'{}', priority => null"#, "priority of job a must be from -32768 to 32767"),
            (r#"'{}', max_attempts => null"#, "max_attempts of job a must be from 1 to 32767"),
            (r#"'{"x":"a\u0000"}', concurrency => 1, by => '{x}'"#, nul),
            (r#"'{"x":"\\\u0000"}', unique_by => '{}'"#, nul),
            (r#"'{"x":1}', limits => '[{"concurrency":1,"by":["\u0000"]}]'"#, nul),
        ] {
            let refused = client.execute(&format!("select jobs.enqueue('a', {call})")).await.unwrap_err().to_string();
            assert!(refused.contains(problem), "{call}: {refused}");
        }
        let backslash = r#"select jobs.enqueue('a', '{"x":"a\\u0000"}', concurrency => 1, by => '{x}')"#;
        client.execute(backslash).await.unwrap();
        client.execute(r#"select jobs.enqueue('a', '{"x":"a\u0000"}')"#).await.unwrap();
    });
}
