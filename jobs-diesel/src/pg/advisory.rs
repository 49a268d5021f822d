//! The keys of our advisory locks. An application in the same database shares them with us: ARCHITECTURE.md lists them.

/// The beginning of the calls that try a lock with a pair of keys. The first number is `jobs` in ASCII; the second and the closing
/// parenthesis follow.
pub(super) const TRY: &str = "pg_try_advisory_xact_lock(1785684595, ";
/// The second number of whoever claims a job that is to run alone.
pub(super) const QUARANTINED: &str = "0)";
/// The second number of whoever rescans.
pub(super) const RESCAN: &str = "5)";
/// From here on second numbers are places of the claim limit: four for each queue, at a multiple of this.
pub(super) const PLACES: u32 = 8;
/// Of the migration: `jobsmigr` in ASCII.
pub(super) const MIGRATE: i64 = 0x6a6f_6273_6d69_6772;
/// Of `worker bench`: `jobsbenc` in ASCII.
pub(super) const BENCH: i64 = 0x6a6f_6273_6265_6e63;
