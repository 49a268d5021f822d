//! How values are stored in columns: times as microseconds, workers and states as text, lists as JSON.

use std::fmt;

use chrono::{DateTime, Utc};
use diesel::QueryResult;
use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::query_builder::AstPass;
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::sqlite::{Sqlite, SqliteValue};
use diesel_jobs_core::storage::Column;
use diesel_jobs_core::{JobState, WorkerId};

/// An instant.
#[derive(Clone, Copy, Debug, FromSqlRow, AsExpression)]
#[diesel(sql_type = BigInt)]
pub(super) struct Instant(pub(super) DateTime<Utc>);

/// A worker.
#[derive(Clone, Copy, Debug, FromSqlRow, AsExpression)]
#[diesel(sql_type = Text)]
pub(super) struct Worker(pub(super) WorkerId);

/// A state that is read.
#[derive(Clone, Copy, Debug, FromSqlRow)]
pub(super) struct State(pub(super) JobState);

/// A list of names.
#[derive(Clone, Debug, FromSqlRow, AsExpression)]
#[diesel(sql_type = Text)]
pub(super) struct Names(pub(super) Vec<String>);

/// Arguments that are written.
#[derive(Clone, Copy, AsExpression)]
#[diesel(sql_type = Text)]
pub(super) struct Args<'a>(pub(super) &'a str);

impl fmt::Debug for Args<'_> {
    // An application's instrumentation of Diesel prints statements with their binds. These are arguments of jobs, so
    // they are not printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of JSON", self.0.len())
    }
}

/// A value of a job that is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a>(pub(super) Column<'a>);

impl<'a> Stored<'a> {
    /// Adds it to a statement.
    pub(super) fn push<'b>(&'b self, out: &mut AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        match &self.0 {
            Column::Integer(number) => out.push_bind_param::<BigInt, _>(number),
            Column::OptionalText(text) => out.push_bind_param::<Nullable<Text>, Option<&str>>(text),
            _ => out.push_bind_param::<Text, Self>(self),
        }
    }
}

impl ToSql<Text, Sqlite> for Stored<'_> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        match self.0 {
            Column::Text(text) => return <str as ToSql<Text, Sqlite>>::to_sql(text, out),
            Column::Texts(texts) => out.set_value(serde_json::to_string(texts)?),
            other => return Err(format!("a text is needed, not {other:?}").into()),
        }
        Ok(IsNull::No)
    }
}

impl ToSql<Text, Sqlite> for Args<'_> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        <str as ToSql<Text, Sqlite>>::to_sql(self.0, out)
    }
}

impl FromSql<BigInt, Sqlite> for Instant {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let micros = <i64 as FromSql<BigInt, Sqlite>>::from_sql(value)?;
        let instant = DateTime::from_timestamp_micros(micros);
        instant
            .map(Self)
            .ok_or_else(|| format!("{micros} microseconds since 1970 are not a time of this calendar").into())
    }
}

impl ToSql<BigInt, Sqlite> for Instant {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(self.0.timestamp_micros());
        Ok(IsNull::No)
    }
}

impl FromSql<Text, Sqlite> for Worker {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let text = <String as FromSql<Text, Sqlite>>::from_sql(value)?;
        Ok(Self(WorkerId(text.parse()?)))
    }
}

impl ToSql<Text, Sqlite> for Worker {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(self.0.to_string());
        Ok(IsNull::No)
    }
}

impl FromSql<Text, Sqlite> for State {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let text = <String as FromSql<Text, Sqlite>>::from_sql(value)?;
        Ok(Self(text.parse()?))
    }
}

impl FromSql<Text, Sqlite> for Names {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let text = <String as FromSql<Text, Sqlite>>::from_sql(value)?;
        Ok(Self(serde_json::from_str(&text)?))
    }
}

impl ToSql<Text, Sqlite> for Names {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(serde_json::to_string(&self.0)?);
        Ok(IsNull::No)
    }
}

/// A number of attempts or crashes. A number out of range becomes the nearest `u16`.
pub(super) fn count(stored: i32) -> u16 {
    u16::try_from(stored).unwrap_or(if stored < 0 { 0 } else { u16::MAX })
}
