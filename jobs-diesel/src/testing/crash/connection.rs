//! What `crash_everywhere` needs from a connection.

use async_trait::async_trait;
use diesel::QueryResult;

use super::contents::Contents;
use super::point::CrashPoint;
use crate::testing::store::TestConnection;

/// A connection on which handlers can be crashed. This trait is implemented for the connection types through which jobs
/// can be enqueued.
#[async_trait]
pub trait CrashConnection: TestConnection {
    /// Begins a transaction, or a savepoint in one.
    async fn begin(&mut self) -> QueryResult<()>;

    /// Rolls it back.
    async fn roll_back(&mut self) -> QueryResult<()>;

    /// Makes the connection crash at this point from now on. `None` removes the point.
    async fn instrument(&mut self, point: Option<&CrashPoint>);

    /// The rows of the application's tables.
    async fn contents(&mut self) -> QueryResult<Contents>;
}

macro_rules! set {
    ($conn:expr, $point:expr) => {
        match $point {
            Some(point) => $conn.set_instrumentation(point.instrumentation()),
            None => $conn.set_instrumentation(|_: diesel::connection::InstrumentationEvent<'_>| {}),
        }
    };
}

pub(super) use set;
