//! `overrides`: what operators have set at run time. Each worker that is not idle sends this once a second. The three
//! tables have a row per setting, so usually none, and it takes a tenth of a millisecond. It locks nothing.

use diesel::data_types::PgInterval;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Bool, Integer, Interval, Nullable, Text};
use diesel_jobs_core::storage::Overrides;

use super::retention::{keep, state};
use crate::pg::native::{native_query, sql};

pub(crate) struct OverridesQuery;

impl QueryFragment<Pg> for OverridesQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select 'queue', name, paused, slots, null::interval from jobs.queue where paused or slots is not null
union all
select 'kind', name, paused, null, null from jobs.kind where paused
union all
select 'retention', kind, false, state::integer, keep from jobs.retention"
        )
    }
}

native_query!(OverridesQuery -> (Text, Text, Bool, Nullable<Integer>, Nullable<Interval>));

/// The table, the name, whether it is paused, the slots or the state, and how long jobs are kept.
pub(crate) type OverrideRow = (String, String, bool, Option<i32>, Option<PgInterval>);

pub(crate) fn overrides(rows: Vec<OverrideRow>) -> Overrides {
    let mut overrides = Overrides::default();
    for (table, name, paused, number, stored) in rows {
        // The checks of the tables allow no numbers out of these ranges.
        match table.as_str() {
            "retention" => {
                if let Some(state) = number.and_then(|number| i16::try_from(number).ok()).and_then(state) {
                    overrides.retention.insert(&name, state, keep(stored));
                }
            }
            "kind" => drop(overrides.paused_kinds.insert(name)),
            _ => {
                if let Some(slots) = number.and_then(|slots| usize::try_from(slots).ok()) {
                    overrides.slots.insert(name.clone(), slots);
                }
                if paused {
                    overrides.paused_queues.insert(name);
                }
            }
        }
    }
    overrides
}
