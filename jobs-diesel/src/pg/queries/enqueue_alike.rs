//! `enqueue` for many jobs that differ only in their arguments, as in most bulks. The common values are sent once. A
//! row takes less of the server's time than with the statement for mixed jobs.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Double, Json, Nullable, SmallInt, Text, Timestamptz};
use diesel_jobs_core::NewJob;

use super::enqueue::{args, tags, timing};
use super::wake::SOMEBODY_SLEEPS;
use crate::pg::native::{RawJson, native_query, sql};

pub(crate) struct EnqueueAlikeQuery<'a> {
    shared: &'a NewJob,
    delay: f64,
    not_before: Option<DateTime<Utc>>,
    max_attempts: i16,
    tags: Option<&'a [String]>,
    args: Vec<RawJson>,
}

impl<'a> EnqueueAlikeQuery<'a> {
    /// Returns `None` if the jobs differ in anything else.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let shared =
            |job: &'a NewJob| (&*job.kind, &*job.queue, job.priority, job.run_at, job.max_attempts, &*job.tags);
        let (first, others) = jobs.split_first()?;
        if others.iter().any(|job| shared(job) != shared(first)) {
            return None;
        }
        let (delay, not_before) = timing(first.run_at);
        Some(Self {
            shared: first,
            delay,
            not_before,
            max_attempts: first.max_attempts.cast_signed(),
            tags: tags(first),
            args: jobs.iter().map(args).collect(),
        })
    }
}

// `unnest` returns the rows in the order of the array. A plan that reads from one function cannot change this order.
impl QueryFragment<Pg> for EnqueueAlikeQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "insert into jobs.ready (kind, queue, priority, run_at, max_attempts, tags, args)
select " [self.shared.kind => Text] ", " [self.shared.queue => Text] ", " [self.shared.priority => SmallInt] ",
       greatest(clock_timestamp() + (select make_interval(secs => " [self.delay => Double] ")), " [self.not_before => Nullable<Timestamptz>] "),
       " [self.max_attempts => SmallInt] ", " [self.tags => Nullable<Array<Text>>] ", args
from unnest(" [self.args => Array<Json>] ") as job (args)
returning id + (select count(pg_notify('jobs', queue)) * 0 from (select " [self.shared.queue => Text] "::text as queue) woken where " SOMEBODY_SLEEPS ")"
        )
    }
}

native_query!(EnqueueAlikeQuery<'a> -> diesel::sql_types::BigInt);
