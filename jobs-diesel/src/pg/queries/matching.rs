//! The conditions of a filter, for the rows of one table under the alias `job`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::{ArgIs, JobFilter, Span, When};
use uuid::Uuid;

use crate::flags::FlagsKnown;
use crate::pg::native::{seconds, sql};

/// A set of rows that is searched by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Waiting,
    /// Jobs that wait for their limit, including those that are scheduled for later.
    Held,
    Running,
    /// All ended jobs.
    Ended,
    Cancelled,
    Discarded,
}

impl Source {
    /// The sources in which jobs of this filter can be. Cancelled and discarded jobs have a short index of their own.
    pub(crate) fn of(filter: &JobFilter) -> Vec<Self> {
        let takes = |state| filter.takes(state);
        let mut sources = Vec::new();
        if JobState::ALL.into_iter().any(|state| state.is_waiting() && state != JobState::Held && takes(state)) {
            sources.push(Self::Waiting);
        }
        if [JobState::Held, JobState::Scheduled, JobState::Retrying].into_iter().any(takes) {
            sources.push(Self::Held);
        }
        if takes(JobState::Running) {
            sources.push(Self::Running);
        }
        if takes(JobState::Completed) {
            sources.push(Self::Ended);
        } else {
            sources.extend(takes(JobState::Cancelled).then_some(Self::Cancelled));
            sources.extend(takes(JobState::Discarded).then_some(Self::Discarded));
        }
        sources
    }

    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Waiting => "jobs.ready",
            Self::Held => "jobs.held",
            Self::Running => "jobs.running",
            Self::Ended | Self::Cancelled | Self::Discarded => "jobs.finished",
        }
    }

    /// The condition that selects an index of its own.
    pub(crate) fn condition(self) -> &'static str {
        match self {
            Self::Waiting | Self::Held | Self::Running | Self::Ended => "",
            Self::Cancelled => " and state = 2",
            Self::Discarded => " and state = 3",
        }
    }
}

/// The conditions that a filter sets for the rows of a source.
pub(crate) struct Matching {
    source: Source,
    filter: JobFilter,
    states: Vec<&'static str>,
    numbers: Vec<i16>,
    worker: Option<Uuid>,
    times: Vec<(&'static str, &'static str, Moment)>,
    /// Whether jobs of later versions are left out.
    only_known: bool,
}

enum Moment {
    At(DateTime<Utc>),
    Ago(f64),
}

impl Matching {
    pub(crate) fn new(source: Source, filter: &JobFilter, only_known: bool) -> Self {
        let wanted = |among: fn(JobState) -> bool| {
            let of_source: Vec<JobState> = JobState::ALL.into_iter().filter(|state| among(*state)).collect();
            let wanted: Vec<JobState> = of_source.iter().copied().filter(|state| filter.takes(*state)).collect();
            if wanted.len() == of_source.len() { Vec::new() } else { wanted }
        };
        let waiting = match source {
            Source::Waiting => wanted(|state| state.is_waiting() && state != JobState::Held),
            Source::Held => wanted(|state| state.is_waiting() && state != JobState::Available),
            _ => Vec::new(),
        };
        let ended = if source == Source::Ended { wanted(JobState::is_finished) } else { Vec::new() };
        let number = |state: JobState| match state {
            JobState::Completed => 1,
            JobState::Cancelled => 2,
            _ => 3,
        };
        let mut times = Vec::new();
        let mut span = |column, span: Span| {
            let ends = [(" > ", span.after), (" < ", span.before)];
            times.extend(ends.into_iter().filter_map(|(sign, when)| Some((column, sign, Moment::of(when?)))));
        };
        span("enqueued_at", filter.enqueued);
        span("run_at", filter.run_at);
        // A source without the column is not searched if this span is set.
        span("finished_at", filter.finished);
        Self {
            source,
            states: waiting.into_iter().map(JobState::as_str).collect(),
            numbers: ended.into_iter().map(number).collect(),
            worker: filter.worker.map(|worker| worker.0),
            times,
            filter: filter.clone(),
            only_known,
        }
    }
}

impl Moment {
    fn of(when: When) -> Self {
        match when.time() {
            Ok(time) => Self::At(time),
            Err(age) => Self::Ago(seconds(Duration::from_millis(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))),
        }
    }
}

/// The newest failure of the job. The order names both columns, so that no plan reads the failures of other jobs.
macro_rules! newest_failure {
    ($column:literal) => {
        concat!(
            "(select e.",
            $column,
            " from jobs.job_error e where e.job_id = job.id order by e.job_id desc, e.id desc limit 1)"
        )
    };
}

impl QueryFragment<Pg> for Matching {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let filter = &self.filter;
        out.push_sql("true");
        if self.only_known {
            sql!(out, " and " {FlagsKnown("job")})?;
        }
        if !self.states.is_empty() {
            let due = if self.source == Source::Held { "held" } else { "available" };
            sql!(out, " and case when job.run_at <= now() then '" (due) "' when job.attempt > 0 then 'retrying' else 'scheduled' end = any(" [self.states => Array<Text>] ")")?;
        }
        if !self.numbers.is_empty() {
            sql!(out, " and job.state = any(" [self.numbers => Array<SmallInt>] ")")?;
        }
        if !filter.kinds.is_empty() {
            sql!(out, " and job.kind = any(" [filter.kinds => Array<Text>] ")")?;
        }
        if !filter.queues.is_empty() {
            sql!(out, " and job.queue = any(" [filter.queues => Array<Text>] ")")?;
        }
        if !filter.tags.is_empty() {
            sql!(out, " and job.tags::text[] @> " [filter.tags => Array<Text>])?;
        }
        if let Some(priority) = &filter.priority {
            sql!(out, " and job.priority = " [*priority => SmallInt])?;
        }
        if let (Some(worker), true) = (&self.worker, !matches!(self.source, Source::Waiting | Source::Held)) {
            sql!(out, " and job.worker = " [*worker => SqlUuid])?;
        }
        for (column, sign, moment) in &self.times {
            sql!(out, " and job."(column)(sign))?;
            match moment {
                Moment::At(time) => sql!(out, [*time => Timestamptz])?,
                Moment::Ago(age) => sql!(out, "now() - make_interval(secs => " [*age => Double] ")")?,
            }
        }
        if let Some(fingerprint) = &filter.fingerprint {
            sql!(out, " and " (newest_failure!("fingerprint")) " = " [*fingerprint => BigInt])?;
        }
        if let Some(error) = &filter.error {
            // In the collation "C" only the letters of ASCII have two cases, as on SQLite.
            sql!(out, " and strpos(lower(" (newest_failure!("message")) " collate \"C\"), lower(" [*error => Text] "::text collate \"C\")) > 0")?;
        }
        filter.args.iter().try_for_each(|arg| argument(arg, out.reborrow()))
    }
}

/// Arguments that contain `\u0000` or half of a pair of surrogates are valid JSON, and cannot be converted to text. A
/// comparison with them would fail the statement. So they never match.
fn argument<'b>(arg: &'b ArgIs, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
    const ARGS: &str = "coalesce(job.args, (select p.args from jobs.payload p where p.job_id = job.id))";
    sql!(
        out,
        " and case when (" (ARGS) ")::text !~ E'\\\\\\\\u(0000|[dD][89a-fA-F])' then json_typeof((" (ARGS) ") #> " [arg.path => Array<Text>]
        ") in ('string', 'number', 'boolean') and (" (ARGS) ") #>> " [arg.path => Array<Text>] " = " [arg.value => Text] " end"
    )
}
