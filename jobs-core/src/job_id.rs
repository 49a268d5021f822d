//! The id of a job.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id of a job. It stays the same in every state and attempt.
///
/// It is the type of a `BigInt` column, so that an application's row can name its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "diesel", derive(diesel::deserialize::FromSqlRow, diesel::expression::AsExpression))]
#[cfg_attr(feature = "diesel", diesel(sql_type = diesel::sql_types::BigInt))]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<i64> for JobId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

impl From<JobId> for i64 {
    fn from(id: JobId) -> Self {
        id.0
    }
}

// The only place in this crate that knows Diesel. Another crate cannot implement Diesel's traits for this type.
#[cfg(feature = "diesel")]
mod column {
    use diesel::backend::Backend;
    use diesel::deserialize::{self, FromSql};
    use diesel::serialize::{self, Output, ToSql};
    use diesel::sql_types::BigInt;

    use super::JobId;

    impl<DB: Backend> ToSql<BigInt, DB> for JobId
    where
        i64: ToSql<BigInt, DB>,
    {
        fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
            self.0.to_sql(out)
        }
    }

    impl<DB: Backend> FromSql<BigInt, DB> for JobId
    where
        i64: FromSql<BigInt, DB>,
    {
        fn from_sql(value: DB::RawValue<'_>) -> deserialize::Result<Self> {
            i64::from_sql(value).map(Self)
        }
    }
}
