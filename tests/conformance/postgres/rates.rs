//! Rates on PostgreSQL: the enqueue in SQL, and what a person may have stored.

use std::time::Duration;

use diesel_jobs_core::{JobState, NewJob, Rate, Rule};

use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};
use crate::limiting::admit;

use super::Postgres;

const OF_SQL: &str = "select count(*) as number from jobs.held where flags = 9 and rules::jsonb = ";

#[test]
fn sql_enqueues_the_same_rate_as_rust() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let second = Duration::from_secs(1);
        for (arguments, rate) in [
            (
                "rate => 6, per => '1 minute', burst => 3, by => '{n}', limit_name => 'api'",
                Rate::new("api", 6, MINUTE).burst(3).key(7),
            ),
            ("rate => 1000, per => '1s'", Rate::new("a", 1000, second)),
            ("rate => 1, per => '366 days', unique_by => '{n}'", Rate::new("a", 1, second * 366 * 86_400)),
        ] {
            client.execute(&format!("select jobs.enqueue('a', '{{\"n\": 7}}', {arguments})")).await.unwrap();
            let id = enqueue(&f, job().rule(rate).unwrap()).await;
            let stored = format!("(select rules::jsonb from jobs.held where id = {id})");
            let flags = if arguments.contains("unique") { OF_SQL.replace("= 9", "& 9 = 9") } else { OF_SQL.to_owned() };
            assert_eq!(client.number(&format!("{flags}{stored}")).await, 2, "{arguments}");
        }
        assert_eq!(admit(f.database()).await, 6);
    });
}

/// The cases are those of the unit test in `jobs-core/src/rules/bucket.rs`.
#[test]
fn sql_and_rust_find_the_same_tokens() {
    run::<Postgres, _>(async |f: Postgres| {
        let cases = include_str!("../../../jobs-core/src/rules/bucket/cases.json");
        let equal = format!(
            "select count(*) as number from json_to_recordset($cases${cases}$cases$)
                 as c (\"limit\" bigint, per bigint, burst bigint, lack bigint, \"left\" bigint, tokens bigint, next_look bigint)
             cross join (select '2026-11-28T03:00:00Z'::timestamptz as at) now
             cross join lateral jobs.bucket(
                 json_build_object('rule', json_build_object('rate', json_build_object('limit', c.\"limit\", 'per', c.per, 'burst', c.burst))),
                 now.at + c.lack * interval '1 microsecond', now.at
             ) b
             where (b.lack, b.tokens, b.lack - b.next_lack) = (c.\"left\", c.tokens, c.next_look)"
        );
        let all = format!("select json_array_length($cases${cases}$cases$)::bigint as number");
        let mut client = f.client().await;
        let all = client.number(&all).await;
        assert_eq!((all > 0, client.number(&equal).await), (true, all));
    });
}

/// What a rate without `burst` gets, and whether it is refused.
#[test]
fn sql_and_rust_have_the_same_burst_by_default() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let (second, mut refused) = (1_000_000, 0);
        for per in
            [1000, 1001, 99_999, second / 10, second - 1, second, 60 * second, 3600 * second, 31_622_400 * second]
        {
            for limit in [1, 2, 9, 10, 11, 19, 20, 99, 100, 101, 999, 9999, 10_000, 99_999, 100_000, 1_000_000] {
                let rule = job().rule(Rate::new("a", limit, Duration::from_micros(per)));
                let sql = format!(
                    "jobs.rule('a', '{{}}', null, null, null, rate => {limit}, per => {per} * interval '1 microsecond')"
                );
                let Ok(NewJob { rules, .. }) = rule else {
                    refused += 1;
                    assert!(client.execute(&format!("select {sql}")).await.is_err(), "{limit} per {per} us");
                    continue;
                };
                let Rule::Rate { burst, .. } = rules[0].rule else { panic!("it is a rate") };
                let of_sql = format!("select ({sql} #>> '{{rule,rate,burst}}')::bigint as number");
                assert_eq!(client.number(&of_sql).await, i64::from(burst), "{limit} per {per} us");
            }
        }
        assert!(refused > 10, "those of more than 10,000 starts in a second");
    });
}

#[test]
fn sql_refuses_rates_that_cannot_be() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for (arguments, problem) in [
            ("rate => 5", "needs `per`"),
            ("per => '1s'", "no `rate`"),
            ("burst => 5", "no `rate`"),
            ("rate => 0, per => '1s'", "from 1 to 1000000"),
            ("rate => 5, per => '0s'", "needs `per`"),
            ("rate => 5, per => '367 days'", "needs `per`"),
            // A year of an interval has 365.25 days, and 360 in comparisons.
            ("rate => 5, per => '12 months 5 days'", "needs `per`"),
            ("rate => 5, per => '-1 year 361 days'", "needs `per`"),
            ("rate => 5, per => '-1s'", "needs `per`"),
            ("limits => '[{\"rate\": 5, \"per\": \"12 months 5 days\"}]'", "needs `per`"),
            ("expires => '-1 year 361 days'", "`expires` of job a must be"),
            ("expires => '101 years'", "`expires` of job a must be"),
            ("unique_by => '{}', unique_within => '-1 year 361 days'", "`unique_within` of job a must be"),
            ("unique_by => '{}', unique_within => '0s'", "`unique_within` of job a must be"),
            ("run_at => 'infinity'", "more than a hundred years from now"),
            ("concurrency => -1", "concurrency of job a must be"),
            ("rate => 5, per => '1s', burst => 0", "burst of job a must be"),
            ("rate => 5, per => '1s', burst => 10001", "burst of job a must be"),
            ("rate => 1, per => '366 days', burst => 101", "within a hundred years"),
            ("rate => 10001, per => '1s'", "more than 10000 starts in a second"),
            ("rate => 5, per => '1s', concurrency => 2", "and the others in `limits`"),
            ("rate => 5, per => '1s', sequence => 'halt'", "and the others in `limits`"),
            ("rate => 5, per => '1s', by => '{x}'", "which job a does not have"),
        ] {
            let refused = client.execute(&format!("select jobs.enqueue('a', '{{}}', {arguments})")).await.unwrap_err();
            assert!(refused.to_string().contains(problem), "{arguments}: {refused}");
        }
        // Admission computes with these numbers. A row that it cannot compute with is not stored.
        for rate in [
            "null",
            "{}",
            r#"{"limit": 1, "per": 0, "burst": 1}"#,
            r#"{"limit": 1, "per": 1000, "burst": 0}"#,
            r#"{"limit": 1, "per": "x", "burst": 1}"#,
            r#"{"limit": 0, "per": 1000, "burst": 1}"#,
        ] {
            let insert = format!(
                "insert into jobs.held (kind, args, flags, most, limit_name, limit_key, rules)
                 values ('a', '{{}}', 9, 1, 'api', '[]', '[{{\"name\": \"api\", \"key\": \"[]\", \"rule\": {{\"rate\": {rate}}}}}]')"
            );
            assert!(client.execute(&insert).await.is_err(), "{rate}");
        }
        // A rule of another sort with the flag of a rate.
        let other = "insert into jobs.held (kind, args, flags, most, limit_name, limit_key, rules)
             values ('a', '{}', 9, 2, 'api', '[]', '[{\"name\": \"api\", \"key\": \"[]\", \"rule\": {\"concurrency\": {\"most\": 2}}}]')";
        let refused = client.execute(other).await.unwrap_err().to_string();
        assert!(refused.contains("are not possible"), "{refused}");
        assert_eq!(admit(f.database()).await, 0);
    });
}

#[test]
fn a_locked_job_delays_no_other_and_spends_no_token() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let ids = enqueue_all(&f, vec![job().rule(Rate::new("api", 6, HOUR).burst(2)).unwrap(); 3]).await;
        let mut other = f.client().await;
        other.begin().await;
        other.execute(&format!("select from jobs.held where id = {} for update", ids[0])).await.unwrap();
        assert_eq!(admit(db).await, 1);
        assert_eq!(state(db, ids[1]).await, JobState::Available);
        other.rollback().await;
        assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1, "a sweep takes it");
        assert_eq!(state(db, ids[0]).await, JobState::Available);
    });
}
