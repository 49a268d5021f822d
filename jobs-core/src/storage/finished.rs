//! What a finish does with the permits of completed jobs, and its result.

use super::Claim;
use crate::job_id::JobId;
use crate::lease::ClaimedJob;

/// What becomes of the permits that completed jobs give back. Internal, and exhaustive, so that no code of ours misses
/// a variant.
#[derive(Clone, Copy, Debug)]
pub enum PassOn<'a> {
    /// They are free. A pass of admission gives them to the next held jobs.
    Nothing,
    /// The next held jobs of the same keys get them and become available, as
    /// [`admit`](super::Storage::admit) would decide. So no pass of admission is needed for them.
    Permits,
    /// The same. Those of these jobs that the claim wants are claimed in the same transaction. A worker asks for it
    /// only while no other job waits for it, because such jobs do not wait for their turn among the available jobs.
    PermitsAndClaim(&'a Claim),
}

/// The result of a [finish](super::Storage::finish).
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// The jobs that were moved.
    pub moved: Vec<JobId>,
    /// How many held jobs have become available.
    pub passed_on: usize,
    /// The held jobs that got a permit and were claimed at once.
    pub claimed: Vec<ClaimedJob>,
    /// Whether a key may have a free permit now, so that a pass of admission should follow.
    pub is_free: bool,
}
