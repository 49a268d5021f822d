//! What happens to a job whose row no longer exists.

use std::any::type_name;

use diesel::QueryResult;
use diesel_jobs_core::{Handled, JobError, Outcome};

use super::{Key, Ref};

/// What happens to a job whose row no longer exists, as set with `#[arg(gone = "..")]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gone {
    /// The job is cancelled.
    Cancel,
    /// The job is discarded.
    Discard,
    /// The attempt fails, and the job is retried.
    Retry,
}

/// Returns the row, or how the attempt ends without it.
pub fn found<T>(loaded: QueryResult<Option<T>>, key: &Key<T>, gone: Gone) -> Result<Ref<T>, Handled> {
    let message = match loaded {
        Ok(Some(row)) => return Ok(Ref(row)),
        Ok(None) => missing(key),
        Err(error) => return Err(Err(JobError::new(error))),
    };
    Err(match gone {
        Gone::Cancel => Ok(Outcome::Cancel(message)),
        Gone::Discard => Err(JobError::msg(message).fatal()),
        Gone::Retry => Err(JobError::msg(message)),
    })
}

/// Returns the row, if there is one.
pub fn found_or_none<T>(loaded: QueryResult<Option<T>>) -> Result<Option<Ref<T>>, JobError> {
    loaded.map(|row| row.map(Ref)).map_err(JobError::new)
}

fn missing<T>(key: &Key<T>) -> String {
    format!("there is no `{}` with the primary key {key:?}", short(type_name::<T>()))
}

/// The last segment of a type's path.
fn short(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}
