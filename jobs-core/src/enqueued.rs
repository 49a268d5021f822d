//! The result of an enqueue.

use std::fmt;
use std::ops::Deref;

use serde::{Serialize, Serializer};

use crate::job_id::JobId;

/// The result of an enqueue: the id of the job, and whether the enqueue inserted the job or found an existing one.
///
/// Dereferences to, and serializes as, its [`JobId`]. In a Diesel statement, it can be used as a value for a `BigInt`
/// column.
///
/// ```
/// # use diesel_jobs_core::{Enqueued, JobId};
/// # fn store(_: JobId) {}
/// # fn after(enqueued: Enqueued) {
/// store(*enqueued);
/// if enqueued.is_existing() {
///     println!("job {enqueued} waits already");
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "diesel", derive(diesel::expression::AsExpression))]
#[cfg_attr(feature = "diesel", diesel(sql_type = diesel::sql_types::BigInt))]
pub struct Enqueued {
    id: JobId,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum How {
    New,
    Existing,
    Replaced,
}

impl Enqueued {
    /// A job that the enqueue has inserted.
    #[doc(hidden)]
    pub const fn new(id: JobId) -> Self {
        Self { id, how: How::New }
    }

    /// A job that existed already, and stays as it is.
    #[doc(hidden)]
    pub const fn existing(id: JobId) -> Self {
        Self { id, how: How::Existing }
    }

    /// A job that existed already, and was changed by the enqueue.
    #[doc(hidden)]
    pub const fn replaced(id: JobId) -> Self {
        Self { id, how: How::Replaced }
    }

    /// The id of the job.
    pub const fn id(self) -> JobId {
        self.id
    }

    /// Whether the enqueue inserted the job.
    pub fn is_new(self) -> bool {
        self.how == How::New
    }

    /// Whether the job already existed, and the enqueue changed nothing.
    pub fn is_existing(self) -> bool {
        self.how == How::Existing
    }

    /// Whether the job already existed, and the enqueue changed it.
    pub fn is_replaced(self) -> bool {
        self.how == How::Replaced
    }
}

impl Deref for Enqueued {
    type Target = JobId;

    fn deref(&self) -> &JobId {
        &self.id
    }
}

impl From<Enqueued> for JobId {
    fn from(enqueued: Enqueued) -> Self {
        enqueued.id
    }
}

impl From<Enqueued> for i64 {
    fn from(enqueued: Enqueued) -> Self {
        enqueued.id.0
    }
}

impl PartialEq<JobId> for Enqueued {
    fn eq(&self, id: &JobId) -> bool {
        self.id == *id
    }
}

impl fmt::Display for Enqueued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// As the id.
impl Serialize for Enqueued {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id.serialize(serializer)
    }
}

#[cfg(feature = "diesel")]
mod column {
    use diesel::backend::Backend;
    use diesel::serialize::{self, Output, ToSql};
    use diesel::sql_types::BigInt;

    use super::Enqueued;

    impl<DB: Backend> ToSql<BigInt, DB> for Enqueued
    where
        i64: ToSql<BigInt, DB>,
    {
        fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
            self.id.0.to_sql(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_its_id_and_says_what_has_happened() {
        let id = JobId(7);
        let answers = [Enqueued::new(id), Enqueued::existing(id), Enqueued::replaced(id)];
        assert_eq!(answers.map(Enqueued::is_new), [true, false, false]);
        assert_eq!(answers.map(Enqueued::is_existing), [false, true, false]);
        assert_eq!(answers.map(Enqueued::is_replaced), [false, false, true]);
        for answer in answers {
            assert!(answer == id && *answer == id);
            assert_eq!((answer.to_string(), serde_json::to_string(&answer).unwrap()), ("7".to_owned(), "7".to_owned()));
            assert_eq!((JobId::from(answer), i64::from(answer)), (id, 7));
        }
    }
}
