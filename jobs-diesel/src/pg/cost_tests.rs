//! No statement of a worker is estimated so high that a server compiles it. Compiling takes up to seconds, at each
//! execution. Our settings prevent it, but a pooler may refuse them.
//!
//! The planner estimates by statistics, and those of a queue are always wrong. So the costs are those of a session
//! without our settings, on a fresh installation, and after rows have come, were analysed, and have gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::Utc;
use diesel::QueryResult;
use diesel::connection::InstrumentationEvent;
use diesel::pg::Pg;
use diesel::query_builder::QueryFragment;
use diesel::sql_types::{Array, Bool, Nullable, Text};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _,
    TransactionManager as _,
};
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::history::Fold;
use diesel_jobs_core::storage::{
    Action, Claim, DeclaredSchedule, JobFilter, Objectives, RescuePolicy, Storage as _, Wanted, WorkerInfo,
};
use diesel_jobs_core::{
    DiscardRule, Failure, FailureKind, Finish, JobId, JobState, Keep, Lease, Limit, NewJob, OnConflict, OnFull, Output,
    ProgressReport, Replace, Retention, Transition, Unique, WorkerId,
};
use uuid::Uuid;

use super::native::RawJson;
use super::patience::Patience;
use super::queries::audited::Actor;
use super::queries::cancelled::CancelledQuery;
use super::queries::change::ChangeQuery;
use super::queries::claim::{ClaimInTurnsQuery, ClaimQuery};
use super::queries::claim_few::ClaimFewQuery;
use super::queries::claim_quarantined::ClaimQuarantinedQuery;
use super::queries::complete::{CompleteQuery, CompletedQuery};
use super::queries::complete_in;
use super::queries::count_examined::CountExaminedQuery;
use super::queries::count_jobs::{CountFinishedQuery, CountHeldQuery, CountReadyQuery};
use super::queries::dead_rows::DeadRowsQuery;
use super::queries::declare_discard_rules::DeclareDiscardRulesQuery;
use super::queries::delete::DeleteQuery;
use super::queries::delete_jobs::DeleteJobsQuery;
use super::queries::discard::DiscardQuery;
use super::queries::discover::DiscoverQuery;
use super::queries::end_waiting::{Ending, NoteQuery};
use super::queries::enqueue::EnqueueQuery;
use super::queries::enqueue_alike::EnqueueAlikeQuery;
use super::queries::enqueue_held::{EnqueueHeldOneQuery, EnqueueHeldQuery};
use super::queries::enqueue_held_alike::EnqueueHeldAlikeQuery;
use super::queries::enqueue_many::EnqueueManyQuery;
use super::queries::enqueue_unique::EnqueueUniqueQuery;
use super::queries::enqueue_unique_alike::EnqueueUniqueAlikeQuery;
use super::queries::enqueue_unique_one::{EnqueueUniqueFreeQuery, EnqueueUniqueOneQuery};
use super::queries::expire::{DueQuery, ExpireQuery, ForgetQuery, StartByQuery};
use super::queries::find::FindQuery;
use super::queries::finish::FinishQuery;
use super::queries::finish_variants::{
    DiscardUnlockedQuery, EverythingQuery, FinishUnlockedQuery, LimitedQuery, LimitedUnlockedQuery, RecordUnlockedQuery,
};
use super::queries::lock_jobs::LockJobsQuery;
use super::queries::next_due::NextDueQuery;
use super::queries::operate::{CancelQuery, RescheduleQuery, RetryQuery};
use super::queries::overrides::OverridesQuery;
use super::queries::poll::PollQuery;
use super::queries::progress::StoreProgressQuery;
use super::queries::prune::PruneQuery;
use super::queries::record_history::RecordHistoryQuery;
use super::queries::rerun::RerunQuery;
use super::queries::rescan::RescanQuery;
use super::queries::rescue::{LostQuery, RescueQuery};
use super::queries::set_apart::{
    SetFinishedApart, SetHistoryApart, SetQuarantinedApart, SetRunningApart, SetWaitingApart,
};
use super::queries::store_outputs::StoreOutputsQuery;
use super::queries::waiting_queues::WaitingQueuesQuery;
use super::queries::{
    admit, clock, declare_discard_rules, doctor, fold_history, full_limits, heartbeat, inspect, installation, leases,
    operation, pause, running_jobs, sample, schedule, tick, worker,
};
use super::tests::{database, plan, url};
use crate::bounded::Range;

/// The server's default.
const JIT_ABOVE_COST: f64 = 100_000.0;

/// Statements that no worker sends: those of people, of applications and of tests. A file stands for all its
/// statements.
const OF_OTHERS: [&str; 49] = [
    // Pages and commands.
    "audit",
    "audited",
    "bring_forward",
    "by_id",
    "cancel_many",
    "change_schedule",
    "count_by_state",
    "dead_letter",
    "events",
    "failures",
    "held_by_queue",
    "inspect::list",
    "inspect::show",
    "inspect::standing",
    "inspect::stats",
    "inspect::size",
    "installation::forget_missed_ticks",
    "installation::freeze",
    "installation::is_read_only_by_default",
    "installation::set_environment",
    "limit_keys",
    "limit_setting",
    "list_schedules",
    "operation::cancel",
    "operation::operation",
    "operation::operations",
    "operation::start",
    "operation::start_once",
    "pause::pause",
    "pause::resume",
    "queue_depths",
    "queue_rates",
    "rate_keys",
    "release",
    "retention",
    "running_jobs::leased",
    "running_jobs::running_by_queue",
    "sample::read",
    "sequence",
    "series",
    "slots",
    "thaw",
    "why",
    "ask_worker",
    // Sent by an application, with a query of its own in them.
    "act",
    "enqueue_each",
    "read_rows",
    // Of benchmarks, and of tests that start a job.
    "bench",
    "start_for_test",
];

/// What only calls statements of other files, and what reads no table of ours.
const WITHOUT_TABLES: [&str; 4] = ["blocked", "finish_batch::finish", "finish_batch::finish_in", "session"];

const ACTOR: Actor<'static> = Actor { name: "ann", is_audited: true };

/// Rows in all tables: those of a fleet with so many jobs that wait, and so many that have ended.
fn rows(jobs: u32) -> String {
    format!(
        r#"
        insert into jobs.worker (id, host, pid, queues, kinds, lease) select gen_random_uuid(), 'h', n, '{{q1}}', '{{k}}', '30s' from generate_series(1, 100) n;
        insert into jobs.queue (name) select 'q' || n from generate_series(1, 100) n;
        insert into jobs.kind (name) select 'k' || n from generate_series(1, 100) n;
        insert into jobs.retention (kind, state, keep) select 'k' || n, 1, '1 d' from generate_series(1, 100) n;
        insert into jobs.limit_setting (name, most, set_by) select 'limit' || n, 2, 'ann' from generate_series(1, 10) n;
        insert into jobs.ready (kind, args, queue, priority, flags) select 'k', '{{}}', 'q' || n % 100, n % 3, 32 from generate_series(1, {jobs}) n;
        insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, flags)
            select nextval('jobs.job_id'), now(), now(), 1, 0, 1, 25, 0, w.id, 'k', 'q1', 1 from jobs.worker w, generate_series(1, {jobs} / 1000);
        insert into jobs.finished (id, run_at, enqueued_at, claimed_at, expires_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue, args)
            select nextval('jobs.job_id'), now(), now(), now(), now() + n * interval '1 s', 1, 1 + n % 3, 0, 1, 25, 0, 'k', 'q' || n % 100, '{{}}'
            from generate_series(1, {jobs}) n;
        insert into jobs.held (kind, args, queue, most, limit_name, limit_key, flags, rules)
            select 'k', '{{}}', 'q' || n % 100, 2, case when flags & 128 = 0 then 'limit' || flags else '' end, '["' || n % 1000 || '"]', flags,
                   case when flags & 128 = 0 then json_build_array(rule) else json_build_array(
                       rule, json_build_object('name', 'other', 'key', '[]', 'rule', json_build_object('concurrency', json_build_object('most', 2)))
                   ) end
            from generate_series(1, {jobs} / 20) n, unnest('{{1, 5, 9, 65, 129, 257}}'::integer[]) flags cross join lateral (
                select json_build_object('name', 'limit' || flags, 'key', '["' || n % 1000 || '"]', 'tenant', case flags when 257 then '[1]' end, 'rule', case flags
                    when 5 then '{{"sequence": {{"on_discard": "skip"}}}}'::json
                    when 9 then '{{"rate": {{"limit": 10, "per": 1000000, "burst": 1}}}}'
                    when 65 then '{{"concurrency": {{"most": 2, "on_full": "discard"}}}}'
                    else '{{"concurrency": {{"most": 2}}}}' end) as rule
            ) one;
        insert into jobs.permit (job_id, limit_name, limit_key) select id, 'limit1', '["' || id % 1000 || '"]' from jobs.running;
        insert into jobs.unique_key (name, key, job_id, started) select 'k', id, id, false from jobs.ready;
        insert into jobs.expiry (job_id, start_by, after) select id, now(), '1 h' from jobs.ready;
        insert into jobs.nudge (limit_name, limit_key) select 'limit1', '["' || n || '"]' from generate_series(1, {jobs} / 10) n;
        insert into jobs.rate (limit_name, limit_key, full_at, next_at) select 'limit9', '["' || n || '"]', now(), now() from generate_series(1, {jobs} / 100) n;
        insert into jobs.fair_turn (limit_name, limit_key, after) select 'limit257', '["' || n || '"]', '[1]' from generate_series(1, {jobs} / 100) n;
        insert into jobs.admission_failure (limit_name, limit_key, job_id, next_at, message) select '', '', n, now(), 'no' from generate_series(1, {jobs} / 100) n;
        insert into jobs.admission_floor (number, floors) select n, '[]' from generate_series(1, 100) n;
        insert into jobs.payload (job_id, args) select id, '{{}}' from jobs.finished limit {jobs} / 2;
        insert into jobs.output (job_id, lease, value) select id, 1, '{{}}' from jobs.finished limit {jobs} / 2;
        insert into jobs.job_error (job_id, attempt, kind, message, fingerprint) select id, 1, 'error', 'no', id % 100 from jobs.finished;
        insert into jobs.on_discarded (kind, enqueues, queue, priority, max_attempts, args, argument)
            select 'k' || n, 'f', 'q', 0, 1, '{{}}', 'job' from generate_series(1, 100) n;
        insert into jobs.schedule (name, kind, expression, timezone, catch_up) select 'k' || n, 'k' || n, '0 * * * * *', 'UTC', 'skip' from generate_series(1, 100) n;
        insert into jobs.history (at, minutes, queue, kind) select now() - n * interval '1 minute', 1, 'q' || n % 100, 'k' from generate_series(1, {jobs}) n;
        insert into jobs.sample (next_at) values (now());
        insert into jobs.installation (environment) values ('test');
        insert into jobs.operation (action, filter, actor, last_id) select 'cancel', '{{}}', 'ann', 1 from generate_series(1, 100);
        insert into jobs.audit (actor, action, target) select 'ann', 'cancel', 'job 1' from generate_series(1, 10000);
        insert into jobs.dead_letter (id, kind, queue, reason, job) select n, 'k', 'q', 'no', '{{}}' from generate_series(1, {jobs} / 100) n"#
    )
}

/// A statement for each of our tables. Then the planner has no statistics but those that the test makes.
fn each_table(statement: &str) -> String {
    format!(
        "do $$ declare t regclass; begin
            for t in select oid from pg_class where relnamespace = 'jobs'::regnamespace and relkind = 'r' and relname <> 'schema_migration' loop
                execute format('{statement}', t);
            end loop;
        end $$"
    )
}

/// As a worker sends it.
enum Sent<'a> {
    /// It is planned for its values, as the first five executions of a prepared statement are.
    Query(Box<dyn QueryFragment<Pg> + Send + Sync + 'a>),
    /// It is planned for any values. The types of the values are known if the connection has kept it prepared.
    Text { text: String, types: Vec<String> },
}

#[derive(diesel::QueryableByName)]
struct Prepared {
    #[diesel(sql_type = Text)]
    text: String,
    #[diesel(sql_type = Array<Text>)]
    types: Vec<String>,
}

#[derive(diesel::QueryableByName)]
struct Line {
    #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
    line: String,
}

impl Sent<'_> {
    /// The estimated cost, and the plan.
    async fn cost(&self, conn: &mut AsyncPgConnection) -> (f64, Vec<String>) {
        let lines = match self {
            Self::Query(query) => plan(conn, "costs on", &**query).await,
            Self::Text { text, types } => {
                let values = (1..).take_while(|number| text.contains(&format!("${number}"))).count();
                let nulls = if values == 0 { String::new() } else { format!("({})", vec!["null"; values].join(", ")) };
                let types = if types.is_empty() { String::new() } else { format!("({})", types.join(", ")) };
                let prepare = format!("prepare sent {types} as {text}; set plan_cache_mode = force_generic_plan");
                if let Err(error) = conn.batch_execute(&prepare).await {
                    return (f64::INFINITY, vec![format!("{error}: {text}")]);
                }
                let explain = format!("explain execute sent {nulls}");
                let lines: Vec<Line> = diesel::sql_query(explain).load(conn).await.unwrap();
                conn.batch_execute("deallocate sent; reset plan_cache_mode").await.unwrap();
                lines.into_iter().map(|line| line.line).collect()
            }
        };
        let cost = lines[0].split("..").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        (cost.parse().unwrap(), lines)
    }
}

/// The statements of workers, by file and name.
struct Statements<'a> {
    /// Of a database with [`rows`].
    conn: AsyncPgConnection,
    sent: Vec<(String, Sent<'a>)>,
}

impl<'a> Statements<'a> {
    /// Adds a statement that can be made without a database.
    fn add<Q: QueryFragment<Pg> + Send + Sync + 'a>(&mut self, query: Q) {
        let name = std::any::type_name::<Q>().split("queries::").nth(1).unwrap();
        self.sent.push((name.split('<').next().unwrap().to_owned(), Sent::Query(Box::new(query))));
    }

    /// Adds the statements that a function sends. It is undone.
    async fn add_those_of(&mut self, name: &str, send: impl AsyncFnOnce(&mut AsyncPgConnection) -> QueryResult<()>) {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let seen = texts.clone();
        AnsiTransactionManager::begin_transaction(&mut self.conn).await.unwrap();
        self.conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::StartQuery { query, .. } = event {
                seen.lock().unwrap().push(query.to_string());
            }
        });
        send(&mut self.conn).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.conn.set_instrumentation(|_: InstrumentationEvent<'_>| {});
        AnsiTransactionManager::rollback_transaction(&mut self.conn).await.unwrap();
        let prepared = "select statement as text, parameter_types::text[] as types from pg_prepared_statements";
        let prepared: Vec<Prepared> = diesel::sql_query(prepared).load(&mut self.conn).await.unwrap();
        let before = self.sent.len();
        for text in texts.lock().unwrap().iter() {
            let text = text.split(" -- binds: ").next().unwrap().trim();
            let first = text.split_whitespace().next().unwrap_or_default().to_lowercase();
            if ["select", "insert", "update", "delete", "with"].contains(&&*first) {
                let types = prepared.iter().find(|one| one.text.trim() == text).map(|one| one.types.clone());
                let sent = Sent::Text { text: text.to_owned(), types: types.unwrap_or_default() };
                self.sent.push((name.to_owned(), sent));
            }
        }
        assert!(self.sent.len() > before, "{name} has sent no statement");
    }
}

/// Adds the statements of a function of `queries`, whose first argument is the connection.
macro_rules! add {
    ($statements:ident: $($path:ident)::+ ( $($argument:expr),* )) => {
        $statements.add_those_of(&[$(stringify!($path)),+].join("::"), async |conn: &mut AsyncPgConnection| {
            $($path)::+(conn $(, $argument)*).await.map(drop)
        }).await
    };
}

fn finishes(worker: WorkerId, transition: &Transition) -> Vec<Finish> {
    let lease = |id| Lease { job: JobId(id), number: 1, worker };
    let finish = |id| Finish { lease: lease(id), flags: JobFlags::default(), transition: transition.clone() };
    (1..500).map(finish).collect()
}

fn limited() -> NewJob {
    NewJob::raw("k", r#"{"id": 1}"#).rule(Limit::new("limit", 2).key(1)).unwrap()
}

fn unique(on_conflict: OnConflict) -> NewJob {
    NewJob::raw("k", "{}").unique(Unique::new().on_conflict(on_conflict)).unwrap()
}

fn discard_rule() -> DiscardRule {
    DiscardRule {
        kind: "k1".to_owned(),
        enqueues: "f".to_owned(),
        queue: "q".to_owned(),
        priority: 0,
        max_attempts: 1,
        args: "{}".to_owned(),
        argument: "other".to_owned(),
        rules: limited().rules,
        expires: Some(Duration::from_secs(60)),
    }
}

/// The files of the folder with their texts.
fn sources() -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/pg/queries")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|extension| extension == "rs") && name != "mod" && name != "tests" {
            texts.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    texts
}

/// The names of all statements in the folder: the structs that can be sent, and the functions that send something.
fn names() -> BTreeSet<String> {
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for (file, text) in sources() {
        for line in text.lines().map(str::trim_start) {
            let query =
                ["native_query!(", "cached_by_text!(", "impl Query for "].iter().find_map(|it| line.strip_prefix(it));
            // What is private is sent by one of the functions.
            let query = query.map(word).filter(|name| text.contains(&format!("pub(crate) struct {name}")));
            let function = line.strip_prefix("pub(crate) async fn ").map(word);
            names.extend(query.or(function).map(|name| format!("{file}::{name}")));
        }
    }
    names
}

#[tokio::test]
async fn no_statement_of_a_worker_is_compiled() {
    let (mut admin, filled, storage) = database().await;
    let mut conn = AsyncPgConnection::establish(&url(&filled)).await.unwrap();
    conn.batch_execute(&each_table("alter table %s set (autovacuum_enabled = off)")).await.unwrap();
    conn.batch_execute(&rows(1000)).await.unwrap();

    let worker = WorkerId::generate();
    storage.register(&WorkerInfo::new(worker, Duration::from_secs(3600))).await.unwrap();
    // With more queues, the first five statements of each session may be compiled, because they are planned for their
    // values.
    let queues = (0..8).map(|queue| Wanted::new(format!("q{queue}"), 500));
    let claim = Claim::new(worker, queues.collect(), ["k".to_owned()]);
    let in_turns = Claim { most: Some(3), ..claim.clone() };
    let of_one_queue = Claim::new(worker, vec![Wanted::new("q1", 500)], ["k".to_owned()]);
    let plan_of_all = storage.levels(worker, |levels| levels.plan_of_all(&claim, std::time::Instant::now()));
    let level = super::levels::Plan {
        scans: vec![super::levels::Scan {
            queue: 0,
            hi: 0,
            lo: 0,
            floor: Some(chrono::DateTime::UNIX_EPOCH),
            resume_at: None,
            try_all_rows: false,
        }],
        of_queue: std::iter::once(0..1).collect(),
        lag: Duration::from_secs(1),
    };
    let claimed = storage.claim(&of_one_queue).await.unwrap();
    assert!(!claimed.is_empty() && claimed.iter().all(|job| job.flags.expires()));
    let ids: Vec<i64> = (1..500).collect();
    let failure = || Failure::new(FailureKind::Error, "no");
    let completed = finishes(worker, &Transition::Complete(Keep::Forever));
    let not_kept = finishes(worker, &Transition::Complete(Keep::Nothing));
    let snoozed = finishes(worker, &Transition::Snooze(Duration::ZERO));
    let retried = finishes(worker, &Transition::Retry { delay: Duration::ZERO, failure: failure() });
    let discarded = finishes(worker, &Transition::Discard { failure: failure(), keep: Keep::Forever });
    let returned = finishes(worker, &Transition::CompleteWith(Keep::Forever, Output::new("x")));
    let complete = CompleteQuery::new(&completed).unwrap();
    let policy = RescuePolicy { max_crashes: 3, retention: Retention::default(), orphans: true, rescuer: None };
    let within = Duration::from_secs(3);
    let (filter, by_kind) = (JobFilter::default(), JobFilter { kinds: vec!["k".to_owned()], ..JobFilter::default() });
    let failed = JobFilter { fingerprint: Some(1), ..JobFilter::default() };
    let range = Range { lowest: 0, highest: i64::MAX, ascends: true, limit: 500, examined: 10_000 };
    let report = |id| ProgressReport {
        lease: Lease { job: JobId(id), number: 1, worker },
        done: 1,
        total: 2,
        message: "half".to_owned(),
    };
    let reports: Vec<ProgressReport> = (1..500).map(report).collect();
    let (plain, held) = (vec![NewJob::raw("k", "{}"); 100], vec![limited(); 100]);
    let mixed = vec![NewJob::raw("k", "{}"), limited(), NewJob::raw("f", "{}")];
    let replacing = unique(OnConflict::Replace(Replace::new().args()));
    let mut with_limit = replacing.clone();
    with_limit.rules = limited().rules;
    let (kept, keys) = (unique(OnConflict::Keep), vec![unique(OnConflict::Keep), replacing.clone(), limited()]);
    let alike: Vec<NewJob> = (0..9)
        .map(|id| NewJob::raw("k", format!(r#"{{"id": {id}}}"#)).unique(Unique::new().by(&["id"])).unwrap())
        .collect();
    let rules = [discard_rule()];
    let declared: DeclaredSchedule =
        serde_json::from_str(r#"{"expression": "1 * * * * *", "timezone": "UTC", "catch_up": "skip"}"#).unwrap();
    let declared = [DeclaredSchedule { name: "k1".to_owned(), ..declared }];
    let patience = Patience::default();

    let mut all = Statements { conn, sent: Vec::new() };
    // Claims, and looks for the next job.
    all.add(ClaimQuery::new(&claim, &plan_of_all));
    all.add(ClaimInTurnsQuery::new(&in_turns, &plan_of_all).unwrap());
    all.add(ClaimFewQuery::new(&of_one_queue, &level).unwrap());
    all.add(ClaimQuarantinedQuery::new(&claim));
    all.add(StartByQuery::new(&claimed));
    all.add(NextDueQuery::new(&claim, &plan_of_all, within));
    all.add(PollQuery::new(&claim, &plan_of_all, within));
    all.add(PollQuery::new(&claim, &plan_of_all, within).looking_for_overdue(true));
    all.add(DiscoverQuery::new(&claim, &plan_of_all));
    all.add(RescanQuery::new(&claim, &plan_of_all));
    all.add(WaitingQueuesQuery);
    all.add(SetWaitingApart::new(&claim, &plan_of_all));
    all.add(SetQuarantinedApart::new(&claim));
    all.add(SetFinishedApart);
    all.add(SetHistoryApart { ids: &ids });
    all.add(SetRunningApart);

    // Finishes.
    all.add(CompleteQuery::new(&completed).unwrap());
    all.add(CompletedQuery(&complete, 499));
    let with_limits = CompleteQuery::new(&completed).unwrap();
    all.add_those_of("complete::complete_limited", async |conn| {
        with_limits.complete_limited(Some(&claim), conn).await.map(drop)
    })
    .await;
    all.add(DeleteQuery::new(&not_kept).unwrap());
    all.add(FinishQuery::new(&snoozed));
    all.add(FinishUnlockedQuery(FinishQuery::new(&snoozed)));
    all.add(RecordUnlockedQuery(FinishQuery::new(&retried)));
    all.add(DiscardUnlockedQuery(FinishQuery::new(&discarded)));
    all.add(LimitedUnlockedQuery(FinishQuery::new(&retried)));
    all.add(LimitedQuery(FinishQuery::new(&retried)));
    all.add(EverythingQuery(FinishQuery::new(&discarded)));
    for store in StoreOutputsQuery::for_batch(&returned) {
        all.add(store);
    }
    all.add(ForgetQuery { ids: ids.clone() });
    all.add(StoreProgressQuery::new(&reports));
    for prepare in complete_in::prepare().lines().collect::<Vec<_>>().join("\n").split(";\n") {
        let text = prepare.split_once(") as ").map(|(_, text)| text.trim_end_matches(';').to_owned());
        all.sent.extend(text.map(|text| ("complete_in".to_owned(), Sent::Text { text, types: Vec::new() })));
    }

    // Leases and rescues.
    add!(all: worker::register(&WorkerInfo::new(worker, within)));
    add!(all: worker::deregister(worker));
    add!(all: worker::set_idle(worker, true));
    add!(all: worker::rescue_is_due());
    add!(all: heartbeat::heartbeat(worker, true, within));
    add!(all: leases::leases(worker, None));
    add!(all: leases::leases(worker, Some(&[JobId(1), JobId(2)])));
    all.add(CancelledQuery { ids: ids.clone() });
    all.add(RescueQuery::new(policy, None));
    all.add(RescueQuery::new(policy, Some(&ids)));
    all.add(LostQuery::new());
    all.add(NoteQuery { id: 1, problem: "no".to_owned() });

    // Admission.
    add!(all: admit::admit(true, false));
    add!(all: admit::next_held(&claim));
    add!(all: admit::next_token(&claim));
    add!(all: admit::held_queues());
    all.add(ExpireQuery::new(60.0));
    all.add(DueQuery::new());
    add!(all: full_limits::find(Retention::default()));
    let full = OnFull::Discard.failure("limit").unwrap();
    let full = Ending::full(ids.clone(), JobState::Discarded, full, 60.0);
    for ending in [Ending::expired(ids.clone(), 60.0), full] {
        all.add_those_of("end_waiting::end", async |conn| ending.end(conn, &ids).await.map(drop)).await;
    }

    // Enqueues, which a tick makes as an application does.
    let (stored, _) = schedule::schedules(&mut all.conn).await.unwrap();
    add!(all: tick::tick(&patience, &stored[0], Utc::now(), &plain[..1]));
    all.add(EnqueueQuery::new(&plain[0]));
    all.add(EnqueueAlikeQuery::new(&plain).unwrap());
    all.add(EnqueueManyQuery::new(&mixed[..1]));
    all.add(EnqueueHeldQuery::new(&mixed).unwrap());
    all.add(EnqueueHeldOneQuery::new(&held[..1]).unwrap());
    all.add(EnqueueHeldAlikeQuery::new(&held).unwrap());
    all.add(EnqueueUniqueQuery::new(&keys).unwrap());
    all.add(EnqueueUniqueAlikeQuery::new(&alike).unwrap());
    all.add(EnqueueUniqueOneQuery::new(std::slice::from_ref(&with_limit)).unwrap());
    all.add(EnqueueUniqueFreeQuery::new(std::slice::from_ref(&kept)).unwrap());

    // Declarations and settings.
    add!(all: schedule::to_declare(&declared));
    add!(all: schedule::declare(&patience, &declared[0]));
    add!(all: schedule::schedules());
    add!(all: declare_discard_rules::stored_rules());
    add!(all: declare_discard_rules::rules());
    add!(all: declare_discard_rules::declare(&patience, "k1", Some(&rules[0])));
    add!(all: declare_discard_rules::declare(&patience, "k1", None));
    all.add(DeclareDiscardRulesQuery::new(&rules));
    all.add(OverridesQuery);
    add!(all: installation::installation());
    add!(all: doctor::examine(&doctor::SEQUENCES, Objectives::default()));

    // Maintenance.
    all.add(PruneQuery { limit: 1000, after: i64::MIN });
    all.add(RecordHistoryQuery { batch: Uuid::now_v7(), age: 60.0, rows: RawJson(b"[]".to_vec()) });
    let fold = Fold { from_minutes: 1, to_minutes: 15, after: Duration::from_secs(3600) };
    add!(all: fold_history::fold_history(fold, 1000));
    add!(all: fold_history::prune_history(Duration::from_secs(3600), 1000));
    add!(all: clock::now());
    add!(all: sample::take_turn());
    add!(all: sample::set_next(within));
    add!(all: sample::store(within, RawJson(b"[]".to_vec()), within));
    add!(all: sample::rest("busy", within));
    all.add(DeadRowsQuery);
    all.add(CountReadyQuery { after: 0 });
    all.add(CountHeldQuery { after: 0 });
    all.add(CountFinishedQuery { after: 0 });
    add!(all: running_jobs::count_running());
    add!(all: inspect::workers());
    add!(all: pause::queues());
    add!(all: pause::kinds());

    // The steps of operations.
    add!(all: operation::is_any_open());
    add!(all: operation::lock(None));
    all.add_those_of("operation::store", async |conn| {
        let stored = operation::lock(conn, None).await?.unwrap();
        operation::store(conn, &stored.record, true).await.map(drop)
    })
    .await;
    for filter in [&filter, &by_kind, &failed] {
        all.add(FindQuery::new(filter, range, true).unwrap());
    }
    all.add(CountExaminedQuery { lowest: 0, highest: i64::MAX });
    for table in ["jobs.ready", "jobs.held", "jobs.running", "jobs.finished"] {
        all.add(LockJobsQuery { table, ids: ids.clone() });
    }
    all.add(RetryQuery::new(ids.clone(), ACTOR));
    all.add(CancelQuery::new(ids.clone(), ACTOR));
    all.add(RescheduleQuery::new(ids.clone(), Utc::now(), ACTOR));
    all.add(DiscardQuery::new(ids.clone(), 60.0, ACTOR));
    all.add(DeleteJobsQuery::new(ids.clone(), ACTOR));
    all.add(RerunQuery::new(ids.clone(), ACTOR));
    all.add(ChangeQuery::new(ids.clone(), &Action::RunNow, ACTOR));

    let problems = [unknown(&all.sent), too_expensive(&all.sent).await].concat();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    drop((all, storage));
    admin.batch_execute(&format!("drop database {filled} with (force)")).await.unwrap();
}

/// Each statement of the folder is here, or is in a list of those that no worker sends.
fn unknown(sent: &[(String, Sent<'_>)]) -> Vec<String> {
    let sent = sent.iter().map(|(name, _)| &**name);
    let known: BTreeSet<&str> = sent.chain(OF_OTHERS).chain(WITHOUT_TABLES).collect();
    let is_known =
        |name: &str| name.split_once("::").is_some_and(|(file, _)| known.contains(file)) || known.contains(name);
    let unknown = names().into_iter().filter(|name| !is_known(name));
    unknown.map(|name| format!("{name} is new: add it to this test, or to those that no worker sends")).collect()
}

/// Which statements a server would compile, and in which state.
async fn too_expensive(sent: &[(String, Sent<'_>)]) -> Vec<String> {
    let (mut admin, name, storage) = database().await;
    let mut conn = AsyncPgConnection::establish(&url(&name)).await.unwrap();
    conn.batch_execute(&each_table("alter table %s set (autovacuum_enabled = off)")).await.unwrap();
    let (rows, analyze, delete) = (rows(100_000), each_table("analyze %s"), each_table("delete from %s"));
    let vacuum = "vacuum (truncate false) jobs.ready, jobs.held, jobs.running, jobs.finished, jobs.permit, jobs.expiry, jobs.job_error, jobs.worker";
    let mut problems = Vec::new();
    for (state, statement) in [
        ("on a fresh installation", "select 1"),
        ("with rows and without statistics", &rows),
        ("after an analyze", &analyze),
        ("after all rows have gone", &delete),
        ("after a vacuum", vacuum),
        ("with rows and the statistics of none", &rows),
    ] {
        conn.batch_execute(statement).await.unwrap();
        for (name, sent) in sent {
            let (cost, plan) = sent.cost(&mut conn).await;
            if cost >= JIT_ABOVE_COST {
                problems.push(format!("{name} costs {cost} {state}: {}", plan.join("\n")));
            }
        }
    }
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
    problems
}

/// Functions of the schema that read a table and do not turn compilation off, although they may be called from
/// elsewhere than from functions that do, and why a server compiles none of their statements.
const BOUNDED: [(&str, &str); 14] = [
    ("allowed", "the planner inserts it"),
    ("check_rules", "it only names the table"),
    ("enqueue_for_discarded", "it inserts the values of one job"),
    ("floor_number", "it reads the first entry of a primary key"),
    ("hold_again", "it finds the rows of one job by its id"),
    ("next_in_sequence", "the planner inserts it"),
    ("next_tenants", "only `why` calls it for a person; for admission, jobs.admit turns compilation off"),
    ("next_token_of", "it finds one key by the primary key"),
    ("note_failure", "it inserts one row"),
    ("put_back", "it finds one row by the primary key"),
    ("replace_waiting", "it finds the rows of one job by its id"),
    ("set_payload_aside", "it finds one row by the primary key"),
    ("wake", "it reads the few rows of jobs.worker: see the tests of `wake`"),
    ("wake_admission", "it reads the few rows of jobs.worker: see the tests of `wake`"),
];

#[derive(diesel::QueryableByName)]
struct Function {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    text: String,
    /// The settings that it has while it runs.
    #[diesel(sql_type = Nullable<Array<Text>>)]
    settings: Option<Vec<String>>,
    #[diesel(sql_type = Bool)]
    reads_tables: bool,
    /// Whether it is a trigger or the default of a column.
    #[diesel(sql_type = Bool)]
    is_implicit: bool,
}

impl Function {
    fn calls(&self, other: &Self) -> bool {
        self.text.contains(&format!("jobs.{}(", other.name))
    }

    fn is_compiled(&self) -> bool {
        !self.settings.iter().flatten().any(|setting| setting == "jit=off")
    }
}

/// The server plans each statement of a function by itself, so the cost of a call says nothing.
#[tokio::test]
async fn no_statement_in_a_function_is_compiled() {
    let (mut admin, name, storage) = database().await;
    let mut conn = AsyncPgConnection::establish(&url(&name)).await.unwrap();
    let all: Vec<Function> = diesel::sql_query(
        "select p.proname::text as name, p.prosrc as text, p.proconfig as settings,
                exists (
                    select from pg_class c where c.relnamespace = p.pronamespace and c.relkind = 'r'
                      and p.prosrc ~ ('\\mjobs\\.' || c.relname || '\\M(?!\\()')
                ) as reads_tables,
                p.prorettype = 'trigger'::regtype
                    or exists (select from pg_attrdef d where pg_get_expr(d.adbin, d.adrelid) like '%jobs.' || p.proname || '(%') as is_implicit
         from pg_proc p where p.pronamespace = 'jobs'::regnamespace",
    )
    .load(&mut conn)
    .await
    .unwrap();
    let statements: String = sources().into_values().collect();
    let mut exposed: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = exposed.len();
        for one in all.iter().filter(|one| one.is_compiled()) {
            let mut callers = all.iter().filter(|caller| caller.name != one.name && caller.calls(one)).peekable();
            let is_called =
                one.is_implicit || callers.peek().is_none() || statements.contains(&format!("jobs.{}(", one.name));
            if is_called || callers.any(|caller| exposed.contains(&*caller.name)) {
                exposed.insert(&one.name);
            }
        }
        if exposed.len() == before {
            break;
        }
    }
    exposed.retain(|name| all.iter().any(|one| one.name == *name && one.reads_tables));
    let listed: BTreeSet<&str> = BOUNDED.iter().map(|(name, _)| *name).collect();
    assert_eq!(exposed, listed, "`set jit = off` for the function, or a reason in the list");
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}
