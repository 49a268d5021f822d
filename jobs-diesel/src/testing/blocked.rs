//! Who waits for the transaction of a test.

#[cfg(feature = "postgres")]
use diesel::QueryResult;

#[cfg(feature = "postgres")]
use crate::pg::queries::blocked::Row;

/// What the database says about sessions that wait for the test's transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// It cannot tell.
    Unknown,
    /// None waits.
    None,
    /// This one waits.
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
