//! Rescans: why one is made, and its result.

/// Why a rescan is made. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescanReason {
    /// A regular rescan. A storage may skip it if it knows that it would find nothing.
    Routine,
    /// Jobs were rescued, released or enqueued with an earlier `run_at`, or a notification was followed by a claim
    /// without jobs. A storage must not skip it.
    Requested,
}

/// The result of a rescan. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescanned {
    /// There was no straggler.
    Nothing,
    /// There were stragglers. Claims find them now.
    Found,
    /// Too many workers rescan at the moment, so it is unknown whether there are stragglers.
    Refused,
}
