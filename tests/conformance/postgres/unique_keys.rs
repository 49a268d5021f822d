//! Unique keys beside other sessions, and in SQL.

use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_jobs_core::{Enqueued, JobId, NewJob, OnConflict, Replace, RunAt, Unique, Until};
use diesel_jobs_storage::{Enqueue, EnqueueError, enqueue_all};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, PATIENCE, Port as _, run};

const RULE: Unique = Unique::new().by(&["user"]);

fn of(args: &str, rule: Unique) -> NewJob {
    NewJob::raw("a", args).unique(rule).unwrap()
}

async fn session(f: &Postgres) -> AsyncPgConnection {
    AsyncPgConnection::establish(&f.url).await.unwrap()
}

/// Waits until a session of this database waits for a lock.
pub(super) async fn one_waits(f: &Postgres) {
    many_wait(f, 1).await;
}

/// Waits until this many sessions of this database wait for locks.
async fn many_wait(f: &Postgres, sessions: i64) {
    let blocked = "select count(*) as number from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    let mut client = f.client().await;
    let begun = std::time::Instant::now();
    while client.number(blocked).await != sessions {
        // It is minutes.
        assert!(begun.elapsed() < PATIENCE, "{sessions} sessions should wait for locks");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn an_enqueue_waits_for_the_open_transaction_of_a_rival() {
    run::<Postgres, _>(async |f: Postgres| {
        for (end, is_new) in [("commit", false), ("rollback", true)] {
            let (mut one, mut other) = (session(&f).await, session(&f).await);
            one.batch_execute("begin").await.unwrap();
            let args = format!(r#"{{"user":"{end}"}}"#);
            let first = of(&args, RULE).enqueue(&mut one).await.unwrap();
            let waiting: tokio::task::JoinHandle<Result<Enqueued, EnqueueError>> =
                tokio::spawn(async move { of(&args, RULE).enqueue(&mut other).await });
            one_waits(&f).await;
            one.batch_execute(end).await.unwrap();
            let second = waiting.await.unwrap().unwrap();
            assert_eq!((second.is_new(), second.id() == first.id()), (is_new, !is_new), "{end}");
        }
    });
}

/// Otherwise the job could run without what the transaction has written, and it would not run again.
#[test]
fn a_job_that_an_open_transaction_relies_on_does_not_start() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let replace = RULE.on_conflict(OnConflict::Replace(Replace::new().args()));
        for rule in [RULE.until(Until::Started), replace] {
            for end in ["commit", "rollback"] {
                let first = enqueue(&f, of(r#"{"user":1,"note":"old"}"#, rule)).await;
                let mut one = session(&f).await;
                one.batch_execute("begin").await.unwrap();
                let found = of(r#"{"user":1,"note":"new"}"#, rule).enqueue(&mut one).await.unwrap();
                assert_eq!(found.id(), first);
                assert!(claim(db, worker, 9).await.is_empty(), "the transaction is open");
                one.batch_execute(end).await.unwrap();
                let claimed = claim(db, worker, 9).await;
                assert_eq!(ids(&claimed), [first], "{end}");
                let replaced = String::from_utf8(claimed[0].args.clone()).unwrap().contains("new");
                assert_eq!(replaced, rule == replace && end == "commit");
                assert!(finish(db, &claimed[0], DONE).await);
            }
        }
    });
}

#[test]
fn a_finish_does_not_wait_for_an_enqueue_that_takes_the_key() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let started = RULE.until(Until::Started);
        let again = RULE.on_conflict(OnConflict::RunAgain);
        for (rule, end) in [(started, "commit"), (started, "rollback"), (again, "commit"), (again, "rollback")] {
            let next = async || {
                db.storage.admit(true).await.unwrap();
                claim(db, worker, 1).await
            };
            let first = enqueue(&f, of(r#"{"user":1}"#, rule)).await;
            let claimed = next().await;
            assert_eq!(ids(&claimed), [first]);
            let mut one = session(&f).await;
            one.batch_execute("begin").await.unwrap();
            let second = of(r#"{"user":1}"#, rule).enqueue(&mut one).await.unwrap();
            assert!(second.is_new());
            assert!(finish(db, &claimed[0], DONE).await, "it does not wait");
            one.batch_execute(end).await.unwrap();
            assert_eq!(crate::unique::keys(&f).await, 1, "{end}");
            // After the rollback the row is that of a job that has ended, so it has no effect.
            let third = of(r#"{"user":1}"#, rule).enqueue(&mut session(&f).await).await.unwrap();
            assert_eq!(third.is_new(), end == "rollback");
            let claimed = next().await;
            assert!(finish(db, &claimed[0], DONE).await);
            assert_eq!(crate::unique::keys(&f).await, 0);
        }
    });
}

/// A key is released and taken again while a bulk waits, so the order of the keys is lost. The bulk then takes them one
/// by one.
#[test]
fn a_bulk_begins_again_after_a_deadlock() {
    run::<Postgres, _>(async |f: Postgres| {
        let user = |number: usize| of(&format!(r#"{{"user":{number}}}"#), RULE.until(Until::Started));
        let first = [enqueue(&f, user(0)).await, enqueue(&f, user(1)).await];
        let (mut bulk, mut other, mut late) = (session(&f).await, session(&f).await, session(&f).await);
        late.batch_execute(&format!("begin; select from jobs.ready where id = {} for update", first[0])).await.unwrap();
        let bulk = tokio::spawn(async move { enqueue_all(&mut bulk, (0..4).map(user)).await });
        one_waits(&f).await;
        // The bulk has the keys of users 2 and 3. The other session gives up the key of user 1, and waits for that of
        // user 2.
        let release =
            format!("set deadlock_timeout = '1 h'; begin; delete from jobs.unique_key where job_id = {}", first[1]);
        other.batch_execute(&release).await.unwrap();
        let rival = tokio::spawn(async move { (user(2).enqueue(&mut other).await, other) });
        many_wait(&f, 2).await;
        late.batch_execute("commit").await.unwrap();
        let (second, mut other) = rival.await.unwrap();
        let second = second.unwrap();
        assert!(second.is_new());
        one_waits(&f).await;
        late.batch_execute("set lock_timeout = '10 s'").await.unwrap();
        let third = user(3).enqueue(&mut late).await.expect("the bulk takes no key before those that precede it");
        other.batch_execute("commit").await.unwrap();
        let answers = bulk.await.unwrap().unwrap();
        assert!(answers[1].is_new());
        let others = [answers[0], answers[2], answers[3]].map(|answer| (answer.is_existing(), answer.id()));
        assert_eq!(others, [first[0], second.id(), third.id()].map(|id| (true, id)));
    });
}

#[test]
fn sql_and_rust_make_the_same_keys() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let mut sql = async |args: &str, options: &str| {
            client.number(&format!("select jobs.enqueue('a', $args${args}$args${options}) as number")).await
        };
        for args in [
            r#"{"user": 7, "é": "ü\n\"\u0001", "b": [1, 2.5, {"d": null, "c": true}], "a": ""}"#,
            r#"{}"#,
            r#"{"user": "x", "list": []}"#,
        ] {
            let id = sql(args, ", unique_by => '{}'").await;
            let found = of(args, Unique::new()).enqueue(&mut session(&f).await).await.unwrap();
            assert_eq!((found.is_existing(), found.id().0), (true, id), "{args}");
        }
        let id = sql(
            r#"{"user": 7, "note": 1}"#,
            ", unique_by => '{user}', unique_until => 'started', run_at => now() + interval '1 h'",
        )
        .await;
        let found = of(r#"{"note":2,"user":7}"#, RULE).enqueue(&mut session(&f).await).await.unwrap();
        assert_eq!((found.is_existing(), found.id().0), (true, id));
        assert_eq!(sql(r#"{"user": 7, "note": 3}"#, ", unique_by => '{user}', on_conflict => 'replace'").await, id);
        let replaced = record(f.database(), JobId(id)).await;
        assert!(replaced.args.contains("3") && replaced.run_at < chrono::Utc::now() + chrono::TimeDelta::minutes(1));
        let limited = sql(r#"{"user": 8}"#, ", unique_by => '{user}', concurrency => 1").await;
        assert_eq!(sql(r#"{"user": 8}"#, ", unique_by => '{user}', concurrency => 1").await, limited);
        let mut client = f.client().await;
        for (options, message) in [
            ("unique_by => '{user}', on_conflict => 'error'", "already"),
            ("unique_by => '{user}', on_conflict => 'drop'", "keep, replace, replace(..), run_again or error"),
            ("unique_by => '{user}', on_conflict => 'replace(queue)'", "names one or several of args"),
            ("unique_by => '{user}', on_conflict => 'replace(args,)'", "names one or several of args"),
            (
                "unique_by => '{user}', on_conflict => 'replace (args)'",
                "keep, replace, replace(..), run_again or error",
            ),
            ("unique_by => '{user}', debounce => '5 s'", "needs both"),
            ("unique_by => '{user}', debounce_max => '5 s'", "needs both"),
            (
                "unique_by => '{user}', debounce => '5 s', debounce_max => '1 min', unique_within => '1 h'",
                "leave them out",
            ),
            (
                "unique_by => '{user}', debounce => '5 s', debounce_max => '1 min', unique_until => 'started'",
                "leave them out",
            ),
            (
                "unique_by => '{user}', debounce => '5 s', debounce_max => '1 min', on_conflict => 'replace'",
                "leave them out",
            ),
            ("unique_by => '{user}', debounce => '5 s', debounce_max => '4 s'", "at least as long"),
            ("debounce => '5 s', debounce_max => '1 min'", "no `unique_by`"),
            ("unique_by => '{user}', on_conflict => 'run_again', unique_until => 'started'", "waits for the end"),
            ("unique_by => '{user}', on_conflict => 'run_again', sequence => 'halt'", "makes a sequence"),
            ("unique_by => '{user}', unique_until => 'ended'", "started or finished"),
            ("unique_by => '{user}', unique_within => interval '0'", "longer than 0"),
            ("unique_by => '{nobody}'", "nobody"),
            ("on_conflict => 'keep'", "no `unique_by`"),
        ] {
            let statement = format!(r#"select jobs.enqueue('a', '{{"user": 7}}', {options})"#);
            let error = client.execute(&statement).await.unwrap_err().to_string();
            assert!(error.contains(message), "{options}: {error}");
        }
    });
}

/// The parameters of `jobs.enqueue` for a rule.
struct OfSql {
    within: Option<&'static str>,
    until: Option<&'static str>,
    on_conflict: Option<&'static str>,
    debounce: Option<(&'static str, &'static str)>,
}

const OF_SQL: OfSql = OfSql { within: None, until: None, on_conflict: None, debounce: None };

impl OfSql {
    fn on_conflict(on_conflict: &'static str) -> Self {
        Self { on_conflict: Some(on_conflict), ..OF_SQL }
    }

    fn debounce(quiet: &'static str, max: &'static str) -> Self {
        Self { debounce: Some((quiet, max)), ..OF_SQL }
    }

    /// In the order of [`Self::names`].
    fn values(&self) -> [String; 5] {
        let (quiet, max) = self.debounce.unzip();
        [self.within, self.until, self.on_conflict, quiet, max]
            .map(|value| value.map_or_else(|| "null".to_owned(), |value| format!("'{value}'")))
    }

    fn names() -> [&'static str; 5] {
        ["unique_within", "unique_until", "on_conflict", "debounce", "debounce_max"]
    }
}

/// Each form of a rule, in Rust and in SQL. The last ones are refused.
fn forms() -> Vec<(Unique, OfSql)> {
    let replace = |replace| RULE.on_conflict(OnConflict::Replace(replace));
    let debounce = |quiet, max| Unique::debounce(quiet, max).by(&["user"]);
    let (second, years) = (Duration::from_secs(1), Duration::from_secs(36_525 * 24 * 3600));
    vec![
        (RULE, OF_SQL),
        (RULE, OfSql { until: Some("finished"), on_conflict: Some("keep"), ..OF_SQL }),
        (RULE.until(Until::Started), OfSql { until: Some("started"), ..OF_SQL }),
        (RULE.within(second * 361 / 4), OfSql { within: Some("90.25 s"), ..OF_SQL }),
        (RULE.within(HOUR * 24), OfSql { within: Some("1 day"), until: Some("finished"), ..OF_SQL }),
        (RULE.within(years), OfSql { within: Some("100 years"), ..OF_SQL }),
        (RULE.on_conflict(OnConflict::Error), OfSql::on_conflict("error")),
        (RULE.on_conflict(OnConflict::RunAgain), OfSql::on_conflict("run_again")),
        (replace(Replace::new().args().run_at().priority()), OfSql::on_conflict("replace")),
        (replace(Replace::new().args().run_at().priority()), OfSql::on_conflict("replace(priority, run_at,args)")),
        (replace(Replace::new().args()), OfSql::on_conflict("replace(args)")),
        (replace(Replace::new().run_at()), OfSql::on_conflict("replace(run_at)")),
        (replace(Replace::new().priority()), OfSql::on_conflict("replace( priority )")),
        (replace(Replace::new().args().priority()), OfSql::on_conflict("replace(args,priority)")),
        (
            replace(Replace::new().args()).until(Until::Started).within(HOUR),
            OfSql { within: Some("1 h"), until: Some("started"), ..OfSql::on_conflict("replace(args)") },
        ),
        (debounce(10 * MINUTE, HOUR), OfSql::debounce("10 minutes", "1 hour")),
        (debounce(HOUR, HOUR), OfSql::debounce("1 hour", "01:00:00")),
        (debounce(second / 1000, years), OfSql::debounce("1 ms", "100 years")),
        (replace(Replace::new()), OfSql::on_conflict("replace()")),
        (RULE.within(Duration::ZERO), OfSql { within: Some("0 s"), ..OF_SQL }),
        (RULE.within(years + second), OfSql { within: Some("100 years 1 s"), ..OF_SQL }),
        (debounce(Duration::ZERO, HOUR), OfSql::debounce("0 s", "1 hour")),
        (debounce(HOUR, MINUTE), OfSql::debounce("1 hour", "1 minute")),
        (debounce(HOUR, years + second), OfSql::debounce("1 hour", "100 years 1 s")),
        (
            RULE.until(Until::Started).on_conflict(OnConflict::RunAgain),
            OfSql { until: Some("started"), ..OfSql::on_conflict("run_again") },
        ),
    ]
}

#[test]
fn sql_and_rust_make_the_same_rules() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let mut refused = 0;
        for (rule, sql) in forms() {
            let made = format!("jobs.unique_rule('a', '{{\"user\": 1}}', '{{user}}', {})", sql.values().join(", "));
            let Ok(job) = NewJob::raw("a", r#"{"user": 1}"#).unique(rule) else {
                refused += 1;
                assert!(client.execute(&format!("select {made}")).await.is_err(), "{made}");
                continue;
            };
            let key = job.unique.unwrap();
            let of_rust = rule.to_json();
            let same = format!(
                "select ({made}::jsonb = '{of_rust}'::jsonb || jsonb_build_object('name', '{}', 'key', $k${}$k$))::integer::bigint as number",
                key.name, key.key
            );
            assert_eq!(client.number(&same).await, 1, "{made}: {of_rust}");
        }
        assert_eq!(refused, 7);
    });
}

/// Whether the first or the second of two enqueues with a key is made by SQL, the answer to the second one and what
/// becomes of the first job are the same.
#[test]
fn sql_and_rust_answer_in_the_same_way() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let (mut client, mut conn) = (f.client().await, session(&f).await);
        let mut user = 0;
        for (rule, sql) in forms() {
            if NewJob::raw("a", r#"{"user": 1}"#).unique(rule).is_err() {
                continue;
            }
            let mut answers = Vec::new();
            for by_sql in [[false, false], [false, true], [true, false], [true, true]] {
                user += 1;
                let mut ids = Vec::new();
                for (place, by_sql) in by_sql.into_iter().enumerate() {
                    let (args, priority) = (format!(r#"{{"user": {user}, "note": {place}}}"#), 5 * place);
                    if !by_sql {
                        let mut job = NewJob::raw("a", args);
                        job.priority = i16::try_from(priority).unwrap();
                        if place > 0 {
                            job.run_at = RunAt::After(2 * HOUR);
                        }
                        ids.push(job.unique(rule).unwrap().enqueue(&mut conn).await.ok().map(|answer| answer.id().0));
                        continue;
                    }
                    let run_at = if place > 0 { "now() + interval '2 h'" } else { "null" };
                    let options: Vec<String> = OfSql::names()
                        .iter()
                        .zip(sql.values())
                        .map(|(name, value)| format!("{name} => {value}"))
                        .collect();
                    let enqueue = format!(
                        "jobs.enqueue('a', '{args}', priority => {priority}, run_at => {run_at}, unique_by => '{{user}}', {})",
                        options.join(", ")
                    );
                    let is_refused = rule.on_conflict == OnConflict::Error && place > 0;
                    ids.push(if is_refused {
                        let refused = client.execute(&format!("select {enqueue}")).await.unwrap_err().to_string();
                        assert!(refused.contains("already"), "{refused}");
                        None
                    } else {
                        Some(client.number(&format!("select {enqueue} as number")).await)
                    });
                }
                let first = record(db, JobId(ids[0].unwrap())).await;
                let waits = (first.run_at - first.enqueued_at).as_seconds_f64() / 60.0;
                let note = first.args.contains(r#""note": 1"#);
                answers.push((ids[1].map(|id| id == first.id.0), note, first.priority, waits.round()));
            }
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{rule:?}: {answers:?}");
        }
    });
}

#[test]
fn a_job_that_sql_enqueues_runs_again() {
    run::<Postgres, _>(async |f: Postgres| {
        let again = RULE.on_conflict(OnConflict::RunAgain);
        let first = of(r#"{"user": 9, "note": 1}"#, again).enqueue(&mut session(&f).await).await.unwrap().id();
        let mut client = f.client().await;
        let mut sql = async |note: u8| {
            let args = format!(r#"{{"user": 9, "note": {note}}}"#);
            let options = "unique_by => '{user}', on_conflict => 'run_again'";
            client.number(&format!("select jobs.enqueue('a', '{args}', {options}) as number")).await
        };
        assert_eq!(sql(2).await, first.0);
        let worker = worker(f.database()).await;
        crate::limiting::admit(f.database()).await;
        assert_eq!(ids(&claim(f.database(), worker, 99).await), [first]);
        let second = sql(3).await;
        let found = of(r#"{"user": 9, "note": 4}"#, again).enqueue(&mut session(&f).await).await.unwrap();
        assert!(second != first.0 && found.is_replaced() && found.id().0 == second);
        assert_eq!(crate::limiting::admit(f.database()).await, 0, "the first one runs");
    });
}

/// What the session of an application executes costs the same with all settings of the planner. Compiling a statement
/// takes longer than an enqueue.
#[test]
fn no_statement_of_an_enqueue_in_sql_is_compiled() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let version = client.number("select current_setting('server_version_num')::bigint as number").await;
        let loaded = "select count(*) as number from pg_settings where name = 'pg_stat_statements.track'";
        if version < 150_000 || client.number(loaded).await == 0 {
            // Only this extension tells, from PostgreSQL 15 on, and where the server has loaded it: that of most tests
            // has.
            return;
        }
        if client.number("select pg_jit_available()::integer::bigint as number").await == 0 {
            eprintln!(
                "NOTHING IS TESTED HERE: this server compiles no statements, because it has no LLVM (`llvm_jit`)"
            );
            return;
        }
        client.execute("create extension if not exists pg_stat_statements").await.unwrap();
        let hostile =
            "set pg_stat_statements.track = 'all'; set jit = on; set jit_above_cost = 0; set enable_seqscan = off;
            set enable_indexscan = off; set plan_cache_mode = force_generic_plan";
        client.execute(hostile).await.unwrap();
        for enqueue in [
            "select jobs.enqueue('a')",
            "select jobs.enqueue('a', concurrency => 1)",
            "select jobs.enqueue('a', unique_by => '{}', on_conflict => 'replace', run_at => now() + interval '1 hour')",
            "select jobs.enqueue('a', '[1]', unique_by => '{}', on_conflict => 'replace', concurrency => 1)",
            "select jobs.enqueue('a', expires => '1 hour')",
            "select jobs.enqueue_unique_free('n', 'k', false, null, '{\"started\":false,\"error\":false,\"args\":false,\"run_at\":false,\"priority\":false}', 'a', 'default', 0::smallint, now(), 3::smallint, null, '{}', null)",
            "select jobs.enqueue_unique_alike('n', array['k', 'l'], false, null, '{\"started\":false,\"error\":false,\"args\":false,\"run_at\":false,\"priority\":false}', 'a', 'default', 0::smallint, now(), 3::smallint, null, array['1', '2']::json[], null)",
        ] {
            for _ in 0..2 {
                client.execute(enqueue).await.unwrap_or_else(|error| panic!("{enqueue}: {error}"));
            }
        }
        let of_ours = "from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database()) and not toplevel";
        assert!(
            client.number(&format!("select count(*) as number {of_ours} and query like '%jobs.unique_key%'")).await > 0
        );
        assert_eq!(
            client.number(&format!("select coalesce(sum(jit_functions), 0)::bigint as number {of_ours}")).await,
            0
        );
        // With the same settings, a statement that does not prevent it is compiled.
        client.number("select sum(n)::bigint as number from generate_series(1, 3) as of_the_application (n)").await;
        let compiled = "select coalesce(sum(jit_functions), 0)::bigint as number from pg_stat_statements
            where dbid = (select oid from pg_database where datname = current_database()) and query like '%of_the_application%'";
        assert!(client.number(compiled).await > 0);
    });
}
