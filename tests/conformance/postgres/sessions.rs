//! What applications do in sessions whose settings change how the server reads SQL. All of it has the same effects as
//! in a session with the defaults.

use diesel::QueryableByName;
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs_core::{JobId, Limit, NewJob, OnConflict, Rate, Replace, Sequence, Traceparent, Unique};

use super::Postgres;
use crate::bench::*;
use crate::client::{Client, Which};
use crate::fixture::{Fixture as _, Port as _, run};

/// Each way to enqueue in SQL, and what is refused. The quotes are dollars, which no setting changes.
const SQL: &[&str] = &[
    "select jobs.enqueue('a.v2')",
    "select jobs.enqueue('a', $${\"x\":1}$$, 'q', 3, '2100-01-01', 5, $${t}$$)",
    "select jobs.enqueue('a', pg_catalog.repeat('9', 5000)::json)",
    "select jobs.enqueue('a.v2', concurrency => 2)",
    "select jobs.enqueue('a', $${\"x\":[1.50,\"\\u0041\"]}$$, concurrency => 2, by => '{x}', limit_name => 'x', on_full => 'discard')",
    "select jobs.enqueue('a', $${\"x\":\"\\\\u0000\"}$$, concurrency => 2, by => '{x}')",
    "select jobs.enqueue('a', $${\"x\":\"\\u0000\"}$$, concurrency => 2, by => '{x}')",
    "select jobs.enqueue('a', $${\"x\":7}$$, concurrency => 2, fair_by => '{x}')",
    "select jobs.enqueue('a.v2', sequence => 'halt')",
    // These kinds have no version.
    "select jobs.enqueue('av2', concurrency => 2)",
    "select jobs.enqueue('wav2', concurrency => 2)",
    "select jobs.enqueue('wav2', unique_by => '{}')",
    "select jobs.enqueue('a.v2', rate => 100, per => '1 minute')",
    "select jobs.enqueue('a', limits => $$[{\"concurrency\":1},{\"rate\":5,\"per\":\"1 s\",\"limit_name\":\"b\"}]$$)",
    "select jobs.enqueue('a', limits => $$[{\"concurrency\":1,\"by\":[\"\\u0000\"]}]$$)",
    "select jobs.enqueue('u.v2', unique_by => '{}')",
    "select jobs.enqueue('u.v3', unique_by => '{}', on_conflict => 'replace')",
    "select jobs.enqueue('u', unique_by => '{}', on_conflict => 'error')",
    "select jobs.enqueue('u', $${\"x\":\"\\u0000\",\"y\":1}$$, unique_by => '{y}', unique_within => '1 hour')",
    "select jobs.enqueue('u', $${\"x\":\"\\u0000\"}$$, unique_by => '{x}')",
    "select jobs.enqueue('u', $${\"x\":\"\\ud800\"}$$, unique_by => '{x}')",
    "select jobs.enqueue('u', $${\"x\":2}$$, unique_by => '{x}', on_conflict => 'run_again')",
    "select jobs.enqueue('u', $${\"x\":3}$$, unique_by => '{x}', concurrency => 1)",
    "select jobs.enqueue('a', expires => '1 hour')",
    "select jobs.enqueue('a', $$[\"\\\\\", \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]$$)",
    "select jobs.cancel(kind => 'u', args => '{}', unique_by => '{}')",
    "select jobs.reschedule(tag => 't', run_at => '2100-01-02')",
    "select jobs.retry(tag => 't')",
    "select jobs.put_back(1)",
    "select jobs.put_back(2)",
    "insert into jobs.queue (name, slots) values ('q', 3) on conflict (name) do update set slots = 3",
];

/// Bulks and single jobs, as Rust enqueues them.
fn enqueued_together() -> Vec<Vec<NewJob>> {
    let large = || NewJob::raw("a", format!("\"{}\"", "x".repeat(5000)));
    let tagged = || {
        with(|job| {
            job.tags = vec![r#"back\slash "quoted""#.to_owned()];
            job.traceparent = Traceparent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        })
    };
    let limited = |key: &str| job().rule(Limit::new(r"a\b", 2).key(key)).unwrap();
    let rated = || job().rule(Rate::new("mails", 100, MINUTE)).unwrap();
    let several = || limited(r"c\d").rule(Sequence::new("orders").key(7)).unwrap();
    let unique = |kind: &'static str, x: u8| {
        let rule = Unique::new().by(&["x"]);
        NewJob::raw(kind, format!(r#"{{"x":{x},"y":"\u0000\\"}}"#)).unique(rule).unwrap()
    };
    let replacing = |x: u8| {
        let rule = Unique::new().by(&["x"]).on_conflict(OnConflict::Replace(Replace::new().args()));
        NewJob::raw("r.v2", format!(r#"{{"x":{x}}}"#)).unique(rule).unwrap()
    };
    let expiring = || with(|job| job.expires = Some(HOUR));
    vec![
        vec![job()],
        vec![tagged()],
        vec![large()],
        vec![job(), job()],
        vec![tagged(), large(), later(HOUR)],
        vec![limited(r"x\y")],
        vec![rated()],
        vec![several()],
        vec![limited("x"), limited("y")],
        vec![limited("x"), rated(), several(), tagged()],
        vec![unique("r", 1)],
        vec![unique("r", 1)],
        vec![unique("r", 2), unique("r", 3)],
        vec![unique("r", 3), unique("r", 4)],
        vec![unique("r", 5), tagged(), rated()],
        vec![replacing(1)],
        vec![replacing(2), replacing(3)],
        vec![unique("s", 1).rule(Limit::new("s", 1)).unwrap()],
        vec![expiring()],
        vec![expiring(), job()],
    ]
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

/// All that is stored, but for the times.
const STORED: &str = "select line from (
    select 1 as part, id, concat_ws(' ', id, kind, queue, priority, attempt, max_attempts, flags, tags, args, traceparent, rules, run_at > now()) as line
    from jobs.ready
    union all select 2, id, concat_ws(' ', id, kind, queue, priority, flags, tags, args, traceparent, rules, limit_name, limit_key, most, later)
    from jobs.held
    union all select 3, id, concat_ws(' ', id, kind, state) from jobs.finished
    union all select 4, job_id, concat_ws(' ', job_id, name, key, started, until is null) from jobs.unique_key
    union all select 5, job_id, concat_ws(' ', job_id, md5(args::text)) from jobs.payload
    union all select 6, job_id, concat_ws(' ', job_id, after) from jobs.expiry
) stored order by part, id, line";

/// The answers to all that an application does in a session with these settings, and what is stored then.
async fn effects(f: &Postgres, client: &mut dyn Client, settings: &str) -> Vec<String> {
    let mut owner = AsyncPgConnection::establish(&f.url).await.unwrap();
    let anew = "delete from jobs.ready; delete from jobs.held; delete from jobs.finished; delete from jobs.unique_key; delete from jobs.payload;
        delete from jobs.expiry; delete from jobs.dead_letter;
        alter sequence jobs.job_id restart; alter sequence jobs.dead_letter_number_seq restart;
        insert into jobs.dead_letter (id, kind, queue, reason, job) values (7, 'a', 'q', 'no', '{\"args\":{}}');
        insert into jobs.dead_letter (id, kind, queue, reason, job)
        values (8, 'a', 'q', 'no', '{\"args\":{},\"rules\":[{\"name\":\"n\",\"key\":\"[]\",\"rule\":{\"concurrency\":{\"most\":1}}}]}')";
    diesel_async::SimpleAsyncConnection::batch_execute(&mut owner, anew).await.unwrap();
    client.execute(settings).await.unwrap();
    let mut answers = Vec::new();
    for jobs in enqueued_together() {
        let like = Which::Like(jobs[0].clone());
        let tag = (!jobs[0].tags.is_empty()).then_some(Which::Tag(r#"back\slash "quoted""#));
        let ids: Result<Vec<JobId>, _> = match &jobs[..] {
            [job] => client.enqueue(job.clone()).await.map(|id| vec![id]),
            _ => client.enqueue_all(jobs.clone()).await,
        };
        answers.push(format!("{ids:?}"));
        let last = ids.map_or_else(|_| Vec::new(), |ids| ids[ids.len() - 1..].to_vec());
        for which in [Some(Which::Some(last)), tag, jobs[0].unique.is_some().then_some(like)].into_iter().flatten() {
            let at = chrono::DateTime::from_timestamp(4_102_444_800, 0).unwrap();
            answers.push(format!(
                "{:?} {:?} {:?}",
                client.reschedule(which.clone(), at).await,
                client.cancel(which.clone()).await,
                client.retry(which).await
            ));
        }
    }
    for sql in SQL {
        answers.push(format!("{sql}: {:?}", client.execute(sql).await.map_err(|problem| problem.to_string())));
    }
    let stored: Vec<Line> = diesel_async::RunQueryDsl::load(diesel::sql_query(STORED), &mut owner).await.unwrap();
    answers.extend(stored.into_iter().map(|one| one.line));
    answers
}

/// Compares with the defaults, on each type of connection.
async fn changes_nothing(f: &Postgres, settings: &str) {
    let sleeper = worker(f.database()).await;
    f.database().storage.set_idle(sleeper, true).await.unwrap();
    for ((name, mut usual), (_, mut other)) in
        super::clients_of(&f.url).await.into_iter().zip(super::clients_of(&f.url).await)
    {
        let expected = effects(f, &mut *usual, "reset all").await;
        let found = effects(f, &mut *other, settings).await;
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(expected, found, "{name}");
        }
        assert_eq!(expected.len(), found.len());
    }
}

#[test]
fn backslashes_are_no_escapes_under_any_setting() {
    run::<Postgres, _>(async |f: Postgres| changes_nothing(&f, "set standard_conforming_strings = off").await);
}

/// A schema with the functions and operators of the server, as far as SQL can define them, all of which fail.
const HOSTILE: &str = "create schema hostile;
do $$
declare
    one record;
begin
    for one in
        select format('%I(%s)', proname, pg_get_function_identity_arguments(oid)) as signature, pg_get_function_result(oid) as result
        from pg_proc where pronamespace = 'pg_catalog'::regnamespace and prokind = 'f'
    loop
        begin
            execute format('create function hostile.%s returns %s language plpgsql as %L', one.signature, one.result,
                           format('begin raise exception %L; end', 'hostile: ' || replace(one.signature, '%', '%%')));
        exception when invalid_function_definition or feature_not_supported or syntax_error then
            null;
        end;
    end loop;
    for one in
        select oid, oprname, oprkind, format_type(oprleft, null) as left, format_type(oprright, null) as right, format_type(oprresult, null) as result
        from pg_operator where oprnamespace = 'pg_catalog'::regnamespace and oprcode <> 0
    loop
        execute format('create function hostile.operator_%s(%s%s) returns %s language plpgsql as %L', one.oid,
                       case one.oprkind when 'b' then one.left || ', ' end, one.right, one.result,
                       format('begin raise exception %L; end', 'hostile: ' || replace(one.oprname, '%', '%%')));
        execute format('create operator hostile.%s (function = hostile.operator_%s, %srightarg = %s)', one.oprname, one.oid,
                       case one.oprkind when 'b' then 'leftarg = ' || one.left || ', ' end, one.right);
    end loop;
end
$$";

/// Extensions that imitate other databases want such a `search_path`.
#[test]
fn functions_and_operators_are_those_of_the_server_under_any_search_path() {
    run::<Postgres, _>(async |f: Postgres| {
        f.client().await.execute(HOSTILE).await.unwrap();
        changes_nothing(&f, "set search_path = hostile, pg_catalog, public").await;
    });
}
