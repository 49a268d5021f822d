//! The time by the database's clock, for statements that compute with it.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

/// The time at which the transaction began.
pub(crate) async fn now(conn: &mut AsyncPgConnection) -> QueryResult<DateTime<Utc>> {
    diesel::select(diesel::dsl::now.into_sql::<Timestamptz>()).get_result(conn).await
}
