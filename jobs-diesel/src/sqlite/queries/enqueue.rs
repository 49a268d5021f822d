//! `enqueue`: inserts many rows with one statement. It is native SQL, because Diesel inserts a list of rows into SQLite
//! one by one. The binds are typed nevertheless. It runs on every connection, sync or async.

use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::flags::{EXPIRES, HELD, UNIQUE};
use diesel_jobs_core::{Enqueued, JobId, NewJob, StoredRules};

use crate::sqlite::time::{FAR, NOW, micros};
use crate::sqlite::types::{Args, Stored};

/// The most rows per statement. Each row has at most 15 binds, and SQLite allows 32,766 binds.
const MAX_ROWS: usize = 1000;
/// The most bytes of arguments per statement. Async connections copy them to another thread.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A statement that inserts jobs and returns their ids. Jobs with a limit are held. A trigger nudges their keys.
#[derive(Debug)]
pub(crate) struct Insert<'a>(Vec<Row<'a>>);

#[derive(Debug)]
pub(super) struct Row<'a> {
    columns: [(&'static str, Stored<'a>); NewJob::COLUMNS],
    /// Microseconds from now.
    delay: i64,
    /// Microseconds since 1970. `run_at` is this time or the end of the delay, whichever is later.
    not_before: i64,
    args: Args<'a>,
    rules: Option<StoredRules<'a>>,
    /// The flags of a unique job and of one that expires.
    more: i32,
    /// How long after its time it expires, in microseconds.
    expires: Option<i64>,
    /// Whether any job of the statement has a flag. Other statements do not name the columns of limits.
    has_flags: bool,
}

impl<'a> Insert<'a> {
    /// Inserts one job.
    pub(crate) fn one(job: &'a NewJob) -> Self {
        Self(vec![Row::of(job)]).named()
    }

    fn named(mut self) -> Self {
        let has_flags = self.0.iter().any(|row| row.rules.is_some() || row.more != 0);
        self.0.iter_mut().for_each(|row| row.has_flags = has_flags);
        self
    }

    /// The statements that insert these jobs, in their order.
    pub(crate) fn all(jobs: &'a [NewJob]) -> impl Iterator<Item = Self> + Send + 'a {
        let mut rest = jobs;
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = |job: &&NewJob| {
                bytes += job.args.len();
                bytes <= MAX_BYTES
            };
            // At least one job is taken, even if its arguments are larger than `MAX_BYTES`.
            let rows = rest.iter().take(MAX_ROWS).take_while(fits).count().max(1).min(rest.len());
            let (now, later) = rest.split_at(rows);
            rest = later;
            (!now.is_empty()).then(|| Self(now.iter().map(Row::of).collect()).named())
        })
    }

    /// Returns the ids in the order of the jobs. SQLite inserts row by row with increasing ids, but may return them in
    /// any order.
    pub(crate) fn in_order(mut ids: Vec<i64>) -> impl Iterator<Item = Enqueued> {
        ids.sort_unstable();
        ids.into_iter().map(|id| Enqueued::new(JobId(id)))
    }
}

impl<'a> Row<'a> {
    pub(super) fn of(job: &'a NewJob) -> Self {
        let (delay, not_before) = job.run_at.parts();
        // A thousand years before now, so that the other time is the later one.
        let delay = delay.map_or(-micros(std::time::Duration::MAX), micros);
        let not_before = not_before.map_or(0, |at| at.timestamp_micros());
        let columns = job.columns().map(|(name, value)| (name, Stored(value)));
        let rules = job.rules.to_stored();
        let unique = if job.unique.is_some() { UNIQUE } else { 0 };
        let expires = if job.expires.is_some() { EXPIRES } else { 0 };
        Self {
            columns,
            delay,
            not_before,
            args: Args(&job.args),
            rules,
            more: unique | expires,
            expires: job.expires.map(micros),
            has_flags: false,
        }
    }

    /// Adds the names of all columns to a statement. The arguments are the last one.
    pub(super) fn push_names(&self, out: &mut AstPass<'_, '_, Sqlite>) {
        for (name, _) in &self.columns {
            out.push_sql(name);
            out.push_sql(", ");
        }
        out.push_sql(if self.has_flags {
            "flags, start_after, start_by, rules, lane, due_at, run_at, args"
        } else {
            "run_at, args"
        });
    }

    /// Adds all values but the arguments to a statement.
    pub(super) fn push_values<'b>(&'b self, out: &mut AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        for (_, value) in &self.columns {
            value.push(out)?;
            out.push_sql(", ");
        }
        match &self.rules {
            Some(StoredRules { flags, json, lane, .. }) => {
                out.push_sql(&format!("{}, ", flags | HELD | self.more));
                self.push_expiry(out)?;
                out.push_bind_param::<Text, _>(json)?;
                out.push_sql(", ");
                out.push_bind_param::<Nullable<Text>, _>(lane)?;
                out.push_sql(", ");
                self.push_time(out)?;
                out.push_sql(&format!(", {FAR}"));
                return Ok(());
            }
            None if self.has_flags => {
                out.push_sql(&format!("{}, ", self.more));
                self.push_expiry(out)?;
                out.push_sql("null, null, null, ");
            }
            None => {}
        }
        self.push_time(out)
    }

    /// Adds how long after its time the job expires, and when that is.
    fn push_expiry<'b>(&'b self, out: &mut AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        let Some(expires) = &self.expires else {
            out.push_sql("null, null, ");
            return Ok(());
        };
        out.push_bind_param::<BigInt, _>(expires)?;
        out.push_sql(", ");
        self.push_time(out)?;
        out.push_sql(" + ");
        out.push_bind_param::<BigInt, _>(expires)?;
        out.push_sql(", ");
        Ok(())
    }

    /// Adds the time at which the job is due.
    fn push_time<'b>(&'b self, out: &mut AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("max(");
        out.push_sql(NOW);
        out.push_sql(" + ");
        out.push_bind_param::<BigInt, _>(&self.delay)?;
        out.push_sql(", ");
        out.push_bind_param::<BigInt, _>(&self.not_before)?;
        out.push_sql(")");
        Ok(())
    }
}

impl QueryFragment<Sqlite> for Insert<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("insert into jobs_job (");
        if let Some(row) = self.0.first() {
            row.push_names(&mut out);
        }
        out.push_sql(") values ");
        for (index, row) in self.0.iter().enumerate() {
            out.push_sql(if index == 0 { "(" } else { ", (" });
            row.push_values(&mut out)?;
            out.push_sql(", ");
            out.push_bind_param::<Text, _>(&row.args)?;
            out.push_sql(")");
        }
        out.push_sql(" returning id");
        // The statements for one row and for `MAX_ROWS` rows are common, and they are cached. There are too many other
        // lengths to cache their statements.
        if self.0.len() > 1 && self.0.len() != MAX_ROWS {
            out.unsafe_to_cache_prepared();
        }
        Ok(())
    }
}

impl QueryId for Insert<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Insert<'_> {
    type SqlType = BigInt;
}

impl<C> RunQueryDsl<C> for Insert<'_> {}
