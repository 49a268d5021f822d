//! How many workers look for jobs at the same moment. Claimers of one queue walk over one another's locked rows, which costs all of
//! them more than four at once can gain: with 64 processes the limit makes 1.7 times as many jobs per second.
//!
//! Nobody waits: whoever finds all places taken comes back later. A place is an advisory lock of the transaction, which is one
//! statement, so that it comes back with its connection, whatever becomes of the worker. Only one that is stopped between
//! two packets of a long answer keeps it, or somebody else's session that takes our keys; [`Claim::bypass_limit`] goes past it then.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Bool, Integer};
use diesel_jobs_core::storage::Claim;

use crate::pg::advisory::{PLACES, RESCAN, TRY};
use crate::pg::native::sql;

/// Whether this claim may look. Asked once, before anything is read.
pub(super) struct ClaimLimit {
    pub(super) bypass_limit: bool,
    places: [i32; 4],
}

impl ClaimLimit {
    /// Workers that want other queues first are in nobody's way.
    pub(super) fn new(claim: &Claim) -> Self {
        Self {
            bypass_limit: claim.bypass_limit,
            places: places(claim.wanted.first().map_or("", |wanted| wanted.queue.as_ref())),
        }
    }
}

/// The second numbers of a queue's keys. Those below [`PLACES`] have other uses.
pub(crate) fn places(queue: &str) -> [i32; 4] {
    // FNV-1a: the same in every version of every program.
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

/// Whether this rescan may look: one worker at a time.
pub(super) struct Alone {
    pub(super) bypass_limit: bool,
}

impl QueryFragment<Pg> for Alone {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, "(" [self.bypass_limit => Bool] " or (select " TRY RESCAN "))")
    }
}
