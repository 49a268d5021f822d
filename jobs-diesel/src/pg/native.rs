//! What statements need but Diesel's DSL cannot express: native SQL with typed binds, and JSON as its text.

use std::fmt;
use std::io::Write as _;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::Json;

/// Writes a native statement: string literals are SQL, `[value => SqlType]` is a bind, `{part}` another fragment.
macro_rules! sql {
    ($out:ident, $($piece:tt)*) => {{ $( $crate::pg::native::sql_piece!($out, $piece); )* diesel::QueryResult::<()>::Ok(()) }};
}

macro_rules! sql_piece {
    ($out:ident, [$value:expr => $sql_type:ty]) => {
        $out.push_bind_param::<$sql_type, _>(&$value)?;
    };
    ($out:ident, {$part:expr}) => {
        diesel::query_builder::QueryFragment::walk_ast(&$part, $out.reborrow())?;
    };
    ($out:ident, $text:expr) => {
        $out.push_sql($text);
    };
}

/// Makes a statement from a struct whose `QueryFragment` is written with [`sql!`]. The SQL is the same for all values,
/// so Diesel caches the prepared statement by the struct's type.
macro_rules! native_query {
    (@id $query:ident) => { $query };
    (@id $query:ident, $life:lifetime) => { $query<'static> };
    ($query:ident $(<$life:lifetime>)? -> $row:ty) => {
        impl $(<$life>)? diesel::query_builder::QueryId for $query $(<$life>)? {
            type QueryId = native_query!(@id $query $(, $life)?);
            const HAS_STATIC_QUERY_ID: bool = true;
        }
        impl $(<$life>)? diesel::query_builder::Query for $query $(<$life>)? {
            type SqlType = $row;
        }
        impl<$($life,)? C> diesel::RunQueryDsl<C> for $query $(<$life>)? {}
    };
}

/// The same for a statement of which there are several texts.
macro_rules! cached_by_text {
    ($query:ident<$life:lifetime> -> $row:ty) => {
        impl<$life> diesel::query_builder::QueryId for $query<$life> {
            type QueryId = ();
            const HAS_STATIC_QUERY_ID: bool = false;
        }
        impl<$life> diesel::query_builder::Query for $query<$life> {
            type SqlType = $row;
        }
        impl<$life, C> diesel::RunQueryDsl<C> for $query<$life> {}
    };
}

pub(crate) use {cached_by_text, native_query, sql, sql_piece};

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
