//! `forget_discard_rules`: deletes the rules of kinds that have none any more. The rows are locked in the order of
//! their kinds, as [`declare_discard_rules`](super::declare_discard_rules) locks them.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Text};
use diesel_jobs_core::DiscardRule;

use crate::pg::native::{native_query, sql};

pub(crate) struct ForgetDiscardRulesQuery<'a> {
    known: &'a [String],
    declared: Vec<&'a str>,
}

impl<'a> ForgetDiscardRulesQuery<'a> {
    /// `known` are the kinds that the program knows, with or without a rule.
    pub(crate) fn new(known: &'a [String], rules: &'a [DiscardRule]) -> Self {
        Self { known, declared: rules.iter().map(|rule| &*rule.kind).collect() }
    }
}

impl QueryFragment<Pg> for ForgetDiscardRulesQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "delete from jobs.on_discarded where kind = any(array(
    select kind from jobs.on_discarded
    where kind = any(" [self.known => Array<Text>] ") and kind <> all(" [self.declared => Array<Text>] ")
    order by kind
    for update
))"
        )
    }
}

native_query!(ForgetDiscardRulesQuery<'a> -> ());
