//! Flags of stored jobs and schedules: the features of a later version that a row uses, a bit each.
//!
//! Programs of two versions work on one database while a new one is deployed. A row with a flag that a program does not know
//! has columns or rules that it does not know either: it neither claims nor moves nor deletes such a row, and leaves it to
//! the newer program.

/// The flags that this version knows: none yet.
pub const KNOWN: i32 = 0;

/// Whether this version knows all of these flags.
pub const fn are_known(flags: i32) -> bool {
    flags & !KNOWN == 0
}
