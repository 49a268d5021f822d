//! Which sessions wait for the transaction of a test.

#[cfg(feature = "postgres")]
use diesel::QueryResult;

#[cfg(feature = "postgres")]
use crate::pg::queries::blocked::Row;

/// Whether another session waits for the transaction of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocked {
    /// The database cannot tell.
    Unknown,
    /// No session waits.
    None,
    /// This session waits.
    Session(String),
}

#[cfg(feature = "postgres")]
pub(super) fn found(row: QueryResult<Option<Row>>) -> Blocked {
    match row {
        Ok(Some(Row { pid, query })) => Blocked::Session(format!("Session {pid} with the statement `{query}`")),
        Ok(None) => Blocked::None,
        // The transaction may be aborted, for example.
        Err(_) => Blocked::Unknown,
    }
}
