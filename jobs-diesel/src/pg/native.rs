//! What PostgreSQL's statements need besides [native SQL](crate::native): JSON as its text, and time spans.

use std::fmt;
use std::io::Write as _;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::Json;

pub(crate) use crate::native::{cached_by_text, native_query, sql};

/// JSON as the bytes of its text, neither parsed nor copied into a tree. The column is `json`, not `jsonb`: `json`
/// accepts every string that serde writes (`jsonb` refuses `\u0000`), and moving a row costs less.
#[derive(Clone, FromSqlRow, AsExpression)]
#[diesel(sql_type = Json)]
pub(crate) struct RawJson(pub(crate) Vec<u8>);

impl fmt::Debug for RawJson {
    // An application's instrumentation of Diesel prints statements with their binds. These are arguments of jobs, so
    // they are not printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of JSON", self.0.len())
    }
}

impl FromSql<Json, Pg> for RawJson {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        Ok(Self(value.as_bytes().to_vec()))
    }
}

impl ToSql<Json, Pg> for RawJson {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(&self.0)?;
        Ok(IsNull::No)
    }
}

/// A time span as the seconds for `make_interval`, at most a thousand years. A handler may ask for any span
/// (`Duration::MAX` is a way to say "never"), and the statement must not fail because of it.
pub(crate) fn seconds(span: std::time::Duration) -> f64 {
    const MILLENNIUM: f64 = 1000.0 * 366.0 * 24.0 * 3600.0;
    span.as_secs_f64().min(MILLENNIUM)
}
