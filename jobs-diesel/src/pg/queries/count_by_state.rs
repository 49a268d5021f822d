//! `count_by_state`: how many jobs of a filter are in each state. Like `find`, it examines a bounded number of rows of
//! each source. It returns numbers instead of ids: one row per state instead of up to ten thousand.
//!
//! The text depends on the filter, so the statement is not kept prepared.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Integer, Text};
use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::JobFilter;

use super::examined::Examined;
use super::matching::{Matching, Source};
use crate::bounded::{FAILED, Has, Range};
use crate::pg::native::sql;

pub(crate) struct CountByStateQuery {
    sources: Vec<(Source, Matching)>,
    examined: Examined,
}

impl CountByStateQuery {
    /// `None` if no job can match.
    pub(crate) fn new(filter: &JobFilter) -> Option<Self> {
        let takes = |state| filter.takes(state);
        let mut sources = Source::of(filter);
        if sources.contains(&Source::Ended) {
            // Then these two are counted with their own index, and not among the newest of all ended jobs.
            sources.extend(takes(JobState::Cancelled).then_some(Source::Cancelled));
            sources.extend(takes(JobState::Discarded).then_some(Source::Discarded));
        }
        let matching = |source| {
            let states = match source {
                Source::Ended => vec![JobState::Completed],
                _ => filter.states.clone(),
            };
            (source, Matching::new(source, &JobFilter { states, ..filter.clone() }, false))
        };
        (!sources.is_empty()).then(|| Self {
            sources: sources.into_iter().map(matching).collect(),
            examined: Examined::new(filter, Range::count(filter)),
        })
    }

    /// The numbers of the sources, and which states are counted in them.
    pub(crate) fn states(&self) -> Vec<(i32, Has)> {
        (0..).zip(&self.sources).map(|(number, (source, _))| (number, has(*source))).collect()
    }
}

fn has(source: Source) -> Has {
    match source {
        Source::Waiting => |state| state.is_waiting() && state != JobState::Held,
        Source::Held => |state| state.is_waiting() && state != JobState::Available,
        Source::Running => |state| state == JobState::Running,
        Source::Ended => |state| state == JobState::Completed,
        Source::Cancelled => |state| state == JobState::Cancelled,
        Source::Discarded => |state| state == JobState::Discarded,
    }
}

/// The state of a row of this source.
fn state(source: Source) -> &'static str {
    match source {
        Source::Waiting => {
            "case when job.run_at <= now() then 'available' when job.attempt > 0 then 'retrying' else 'scheduled' end"
        }
        Source::Held => {
            "case when job.run_at <= now() then 'held' when job.attempt > 0 then 'retrying' else 'scheduled' end"
        }
        Source::Running => "'running'",
        Source::Ended => "'completed'",
        Source::Cancelled => "'cancelled'",
        Source::Discarded => "'discarded'",
    }
}

impl QueryFragment<Pg> for CountByStateQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        for (number, (source, matching)) in self.sources.iter().enumerate() {
            out.push_sql(if number == 0 { "(" } else { " union all (" });
            out.push_sql(&format!("select {number} as source, {} as state, count(*) filter (where ", state(*source)));
            sql!(out, {*matching} "), count(*) from (")?;
            self.examined.rows(*source, out.reborrow())?;
            out.push_sql(") job group by 2)");
        }
        if self.examined.is_by_fingerprint() {
            sql!(out, " union all (select " (&FAILED.to_string()) ", '', 0, (")?;
            self.examined.count_failed(out.reborrow())?;
            out.push_sql("))");
        }
        Ok(())
    }
}

impl QueryId for CountByStateQuery {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for CountByStateQuery {
    type SqlType = (Integer, Text, BigInt, BigInt);
}

impl<C> RunQueryDsl<C> for CountByStateQuery {}
