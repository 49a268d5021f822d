//! The claim limit: how many claims that begin with the same queue run at the same moment. Each claim reads the rows
//! that the other claims have locked. With more than four claims at once, this costs all of them more than it gains.
//! With 64 processes the limit gives 1.7 times as many jobs per second.
//!
//! No worker waits. A worker that finds all places taken tries again later. A place is an advisory lock of the
//! transaction. The transaction is one statement, so the place is released with the connection, whatever happens to the
//! worker. There are two exceptions. A worker that is stopped between two packets of a long answer keeps its place. And
//! a session of another application may hold locks with our keys. Then [`Claim::bypass_limit`] bypasses the limit.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Bool, Integer};
use diesel_jobs_core::storage::Claim;

use crate::pg::advisory::{PLACES, RESCAN, TRY};
use crate::pg::native::sql;

/// The condition that this claim may search for jobs. It is evaluated once, before any row is read.
pub(super) struct ClaimLimit {
    pub(super) bypass_limit: bool,
    places: [i32; 4],
}

impl ClaimLimit {
    /// The limit applies to the first queue of the claim. Workers with another first queue do not disturb this claim.
    pub(super) fn new(claim: &Claim) -> Self {
        Self {
            bypass_limit: claim.bypass_limit,
            places: places(claim.wanted.first().map_or("", |wanted| wanted.queue.as_ref())),
        }
    }
}

/// The second keys of a queue's places. Second keys below [`PLACES`] have other uses.
pub(crate) fn places(queue: &str) -> [i32; 4] {
    // FNV-1a, because the hash must be the same in every version of every program.
    let hash = queue.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let first = (((hash >> 2) & 0x0fff_ffff) + 1) * PLACES;
    [0, 1, 2, 3].map(|place| (first + place).cast_signed())
}

impl QueryFragment<Pg> for ClaimLimit {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let [first, second, third, fourth] = &self.places;
        sql!(
            out,
            "(" [self.bypass_limit => Bool] " or (select " TRY [*first => Integer] ") or " TRY [*second => Integer] ")
                or " TRY [*third => Integer] ") or " TRY [*fourth => Integer] ")))"
        )
    }
}

/// The condition that this rescan may run. Only one worker rescans at a time.
pub(super) struct RescanLimit {
    pub(super) bypass_limit: bool,
}

impl QueryFragment<Pg> for RescanLimit {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, "(" [self.bypass_limit => Bool] " or (select " TRY RESCAN "))")
    }
}
