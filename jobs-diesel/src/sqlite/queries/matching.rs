//! The conditions of a filter, for the rows of `jobs_job` under the alias `job`.

use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, SmallInt, Text};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::{ArgIs, JobFilter, Span, When, index};

use crate::flags::FlagsKnown;
use crate::sqlite::time::{NOW, micros};
use crate::sqlite::types::{Instant, Worker};

/// The conditions that a filter sets.
pub(crate) struct Matching {
    filter: JobFilter,
    worker: Option<Worker>,
    times: Vec<(&'static str, &'static str, Moment)>,
    args: Vec<(ArgIs, Vec<String>)>,
    /// Whether jobs of later versions are left out.
    only_known: bool,
}

enum Moment {
    At(Instant),
    Ago(i64),
}

impl Matching {
    pub(crate) fn new(filter: &JobFilter, only_known: bool) -> Self {
        let mut times = Vec::new();
        let mut span = |column, span: Span| {
            let ends = [(" > ", span.after), (" < ", span.before)];
            times.extend(ends.into_iter().filter_map(|(sign, when)| Some((column, sign, Moment::of(when?)))));
        };
        span("enqueued_at", filter.enqueued);
        span("due", filter.run_at);
        span("finished_at", filter.finished);
        Self {
            worker: filter.worker.map(Worker),
            times,
            args: filter.args.iter().map(|arg| (arg.clone(), paths(&arg.path))).collect(),
            filter: filter.clone(),
            only_known,
        }
    }
}

impl Moment {
    fn of(when: When) -> Self {
        match when.time() {
            Ok(time) => Self::At(Instant(time)),
            Err(age) => Self::Ago(micros(age)),
        }
    }
}

/// The paths as SQLite writes them. A number may be the name of a field or a place in an array. The names contain no
/// quotation mark and no backslash.
fn paths(names: &[String]) -> Vec<String> {
    let mut paths = vec!["$".to_owned()];
    for name in names {
        let field = format!(".\"{name}\"");
        let place = index(name).map(|place| format!("[{place}]"));
        let steps: Vec<String> = [Some(field), place].into_iter().flatten().collect();
        paths = paths.iter().flat_map(|path| steps.iter().map(move |step| format!("{path}{step}"))).collect();
    }
    paths
}

/// A list of texts, in parentheses.
fn among<'b>(texts: &'b [String], mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
    for (number, text) in texts.iter().enumerate() {
        out.push_sql(if number == 0 { "(" } else { ", " });
        out.push_bind_param::<Text, _>(text)?;
    }
    out.push_sql(")");
    Ok(())
}

/// The condition that selects the state. A name is a literal, so that the planner can use partial indexes.
fn state(state: JobState) -> String {
    match state {
        JobState::Available => format!("job.state = 'available' and job.run_at <= {NOW}"),
        JobState::Held => format!("job.state = 'available' and job.flags & 2 and job.due_at <= {NOW}"),
        JobState::Scheduled => {
            format!("job.state = 'available' and coalesce(job.due_at, job.run_at) > {NOW} and job.attempt = 0")
        }
        JobState::Retrying => {
            format!("job.state = 'available' and coalesce(job.due_at, job.run_at) > {NOW} and job.attempt > 0")
        }
        stored => format!("job.state = '{stored}'"),
    }
}

/// The newest failure of the job.
macro_rules! newest_failure {
    ($column:literal) => {
        concat!("(select e.", $column, " from jobs_job_error e where e.job_id = job.id order by e.id desc limit 1)")
    };
}

impl QueryFragment<Sqlite> for Matching {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        let filter = &self.filter;
        let states: Vec<JobState> = JobState::ALL.into_iter().filter(|state| filter.takes(*state)).collect();
        if states.len() == JobState::ALL.len() {
            out.push_sql("true");
        } else {
            let states: Vec<String> = states.into_iter().map(state).collect();
            out.push_sql(&format!("({})", states.join(" or ")));
        }
        if self.only_known {
            out.push_sql(" and ");
            FlagsKnown("job").walk_ast(out.reborrow())?;
        }
        if !filter.kinds.is_empty() {
            out.push_sql(" and job.kind in ");
            among(&filter.kinds, out.reborrow())?;
        }
        if !filter.queues.is_empty() {
            out.push_sql(" and job.queue in ");
            among(&filter.queues, out.reborrow())?;
        }
        for tag in &filter.tags {
            out.push_sql(" and exists (select 1 from json_each(job.tags) tag where tag.value = ");
            out.push_bind_param::<Text, _>(tag)?;
            out.push_sql(")");
        }
        if let Some(priority) = &filter.priority {
            out.push_sql(" and job.priority = ");
            out.push_bind_param::<SmallInt, _>(priority)?;
        }
        if let Some(worker) = &self.worker {
            out.push_sql(" and job.worker = ");
            out.push_bind_param::<Text, _>(worker)?;
        }
        for (column, sign, moment) in &self.times {
            match *column {
                // That of a held job is in another column.
                "due" => out.push_sql(&format!(" and coalesce(job.due_at, job.run_at){sign}")),
                column => out.push_sql(&format!(" and job.{column}{sign}")),
            }
            match moment {
                Moment::At(time) => out.push_bind_param::<BigInt, _>(time)?,
                Moment::Ago(age) => {
                    out.push_sql(&format!("{NOW} - "));
                    out.push_bind_param::<BigInt, _>(age)?;
                }
            }
        }
        if let Some(fingerprint) = &filter.fingerprint {
            out.push_sql(concat!(" and ", newest_failure!("fingerprint"), " = "));
            out.push_bind_param::<BigInt, _>(fingerprint)?;
        }
        if let Some(error) = &filter.error {
            out.push_sql(concat!(" and instr(lower(", newest_failure!("message"), "), lower("));
            out.push_bind_param::<Text, _>(error)?;
            out.push_sql(")) > 0");
        }
        self.args.iter().try_for_each(|(arg, paths)| argument(arg, paths, out.reborrow()))
    }
}

/// SQLite reads `true` as 1, and numbers in a form of its own. So all values but strings are compared as JSON text.
fn argument<'b>(arg: &'b ArgIs, paths: &'b [String], mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
    for (number, path) in paths.iter().enumerate() {
        out.push_sql(if number == 0 { " and (case json_type(job.args, " } else { " or case json_type(job.args, " });
        out.push_bind_param::<Text, _>(path)?;
        out.push_sql(") when 'text' then json_extract(job.args, ");
        out.push_bind_param::<Text, _>(path)?;
        out.push_sql(") = ");
        out.push_bind_param::<Text, _>(&arg.value)?;
        out.push_sql(" when 'null' then false when 'object' then false when 'array' then false else (job.args -> ");
        out.push_bind_param::<Text, _>(path)?;
        out.push_sql(") = ");
        out.push_bind_param::<Text, _>(&arg.value)?;
        out.push_sql(" end");
    }
    out.push_sql(")");
    Ok(())
}
