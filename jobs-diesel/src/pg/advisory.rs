//! The keys of our advisory locks. Applications in the same database share these keys, so `migrations/README.md` lists
//! them.

/// The beginning of a call that tries a lock with a pair of keys. The first key is `jobs` in ASCII. The second key and
/// the closing parenthesis follow.
pub(super) const TRY: &str = "pg_try_advisory_xact_lock(1785684595, ";
/// The second key for claiming a quarantined job.
pub(super) const QUARANTINED: &str = "0)";
/// The second key for a rescan.
pub(super) const RESCAN: &str = "5)";
/// Waits until no other session does what a request with a key asks for. The lock is held until the end of the
/// transaction.
pub(super) const ONE_REQUEST: &str = "select pg_advisory_xact_lock(1785684595, 6)";
/// From here on, second keys are places of the claim limit: four for each queue, at a multiple of this.
pub(super) const PLACES: u32 = 8;
/// The key for the migration: `jobsmigr` in ASCII.
pub(super) const MIGRATE: i64 = 0x6a6f_6273_6d69_6772;
/// The key for `worker bench`: `jobsbenc` in ASCII.
pub(super) const BENCH: i64 = 0x6a6f_6273_6265_6e63;
