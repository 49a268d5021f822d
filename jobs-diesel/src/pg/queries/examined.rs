//! The rows of a source that a search examines: the first ones in the order of the ids, or those of the jobs that the
//! filter names by their ids, or that have failed with its fingerprint.
//!
//! It uses `ready_id`, the primary keys, `finished_unsuccessful` and `job_error_fingerprint`.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::AstPass;
use diesel::sql_types::{Array, BigInt};
use diesel_jobs_core::storage::JobFilter;

use super::matching::Source;
use crate::bounded::Range;
use crate::pg::native::sql;

pub(crate) struct Examined {
    ids: Vec<i64>,
    fingerprint: Option<i64>,
    range: Range,
}

impl Examined {
    pub(crate) fn new(filter: &JobFilter, range: Range) -> Self {
        Self { ids: filter.ids.iter().map(|id| id.0).collect(), fingerprint: filter.fingerprint, range }
    }

    /// Whether there may be more rows than are examined.
    pub(crate) fn is_bounded(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether they are the jobs that have failed with a fingerprint.
    pub(crate) fn is_by_fingerprint(&self) -> bool {
        self.ids.is_empty() && self.fingerprint.is_some()
    }

    pub(crate) fn rows<'b>(&'b self, source: Source, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if self.ids.is_empty() && self.fingerprint.is_none() {
            out.push_sql("select * from ");
            return self.first(source, out);
        }
        out.push_sql("select found.* from (");
        self.wanted(out.reborrow())?;
        // One by one, see `by_id`.
        sql!(
            out,
            ") wanted cross join lateral (select * from " (source.table()) " where id = wanted.id" (source.condition())
            " offset 0) found"
        )
    }

    /// The last id that is examined, or nothing if there are fewer.
    pub(crate) fn edge<'b>(&'b self, source: Source, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("select id from (select id from ");
        match self.fingerprint {
            None => self.first(source, out.reborrow())?,
            Some(_) => {
                out.push_sql("(");
                self.wanted(out.reborrow())?;
                out.push_sql(") wanted");
            }
        }
        let last = self.range.examined.saturating_sub(1).to_string();
        sql!(out, ") examined order by id " (self.range.direction()) " offset " (&last) " limit 1")
    }

    /// How many of the jobs that have failed with the fingerprint are examined.
    pub(crate) fn count_failed<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("select count(*) from (");
        self.wanted(out.reborrow())?;
        out.push_sql(") wanted");
        Ok(())
    }

    /// The first rows of the source.
    fn first<'b>(&'b self, source: Source, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Range { lowest, highest, examined, .. } = &self.range;
        sql!(
            out,
            (source.table()) " where id >= " [*lowest => BigInt] " and id <= " [*highest => BigInt] (source.condition())
            " order by id " (self.range.direction()) " limit " (&examined.to_string())
        )
    }

    /// The ids of the jobs that the filter names, or that have failed with its fingerprint.
    fn wanted<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Range { lowest, highest, examined, .. } = &self.range;
        match &self.fingerprint {
            Some(fingerprint) if self.ids.is_empty() => sql!(
                out,
                "select distinct e.job_id as id from jobs.job_error e where e.fingerprint = " [*fingerprint => BigInt]
                " and e.job_id >= " [*lowest => BigInt] " and e.job_id <= " [*highest => BigInt]
                " order by e.job_id " (self.range.direction()) " limit " (&examined.to_string())
            ),
            _ => sql!(
                out,
                "select distinct id from unnest(" [self.ids => Array<BigInt>] ") as id where id >= " [*lowest => BigInt]
                " and id <= " [*highest => BigInt]
            ),
        }
    }
}
