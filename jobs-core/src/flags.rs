//! Flags of stored jobs and schedules: one bit for each feature of a later version that a row uses.
//!
//! During a deployment, programs of two versions use the same database. A row with an unknown flag may use columns or
//! rules that this program does not know. So this program does not claim, move or delete such a row. The newer program
//! does.

/// The job has a limit. A statement that moves the job must also keep or delete its permit.
pub const LIMITED: i32 = 1;

/// The job is held by its limit. Only SQLite has this flag: on PostgreSQL held jobs have a table of their own.
pub const HELD: i32 = 2;

/// The job is in a sequence. It has the flag [`LIMITED`], too.
pub const SEQUENCE: i32 = 4;

/// The job has a rate. It has the flag [`LIMITED`], too, and no permit.
pub const RATE: i32 = 8;

/// The job was enqueued with a unique key. The statement that ends the job must also release the key.
pub const UNIQUE: i32 = 16;

/// The job is cancelled if its first attempt does not start in time.
pub const EXPIRES: i32 = 32;

/// The job does not wait if its limit is full when it becomes due. It is discarded, or the oldest jobs of its key are
/// cancelled. It has the flag [`LIMITED`], too.
pub const ON_FULL: i32 = 64;

/// The job has several limits. It has the flag [`LIMITED`], too. While it is held, [`SEQUENCE`] and [`RATE`] say at
/// which of them it waits.
pub const SEVERAL: i32 = 128;

/// The job has a tenant: admission takes the tenants of its limit in turns. It has the flag [`LIMITED`], too.
pub const FAIR: i32 = 256;

/// The flags of a claimed job. The end of its attempt depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFlags(pub i32);

impl JobFlags {
    /// Whether the end of the job gives something back: a permit, or a unique key.
    pub const fn gives_back(self) -> bool {
        self.0 & (LIMITED | UNIQUE) != 0
    }

    /// Whether the job has a limit, so that its end deletes its permit.
    pub const fn is_limited(self) -> bool {
        self.0 & LIMITED != 0
    }

    /// Whether the job is in a sequence, which a discard of the job halts.
    pub const fn is_in_sequence(self) -> bool {
        self.0 & SEQUENCE != 0
    }

    /// Whether the job is cancelled if its first attempt does not start in time.
    pub const fn expires(self) -> bool {
        self.0 & EXPIRES != 0
    }

    /// Whether the end of the job lets another job of its key start. The end of a job with a rate does not.
    pub(crate) const fn has_permit(self) -> bool {
        self.0 & (LIMITED | RATE) == LIMITED
    }
}

/// The flags of jobs that this version knows.
pub const KNOWN: i32 = LIMITED | HELD | SEQUENCE | RATE | UNIQUE | EXPIRES | ON_FULL | SEVERAL | FAIR;

/// Whether this version knows all of these flags of a job.
pub const fn are_known(flags: i32) -> bool {
    flags & !KNOWN == 0
}

/// The flags of schedules.
pub mod schedules {
    /// An operator has added or changed the schedule: a worker that declares it does not overwrite it.
    pub const OPERATORS: i32 = 1;

    /// The flags that this version knows.
    pub const KNOWN: i32 = OPERATORS;

    /// Whether this version knows all of these flags of a schedule.
    pub const fn are_known(flags: i32) -> bool {
        flags & !KNOWN == 0
    }
}
