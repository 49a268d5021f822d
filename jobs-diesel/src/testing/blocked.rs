//! Who waits for the transaction of a test.

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
