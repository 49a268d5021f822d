//! Which SQL type a query must have for which argument.

use diesel::expression::{AsExpression, TypedExpressionType};
use diesel::sql_types::{self as sql, SqlType};

/// An argument that a query can provide. This trait sets the SQL type that its expression must have, and how SQLite
/// converts it to JSON.
///
/// | argument | SQL type |
/// |---|---|
/// | `bool` | `Bool` |
/// | `i16`, `i32`, `i64` | `SmallInt`, `Integer`, `BigInt` |
/// | `f32`, `f64` | `Float`, `Double` |
/// | `String` | `Text` |
/// | `chrono::NaiveDate`, `chrono::NaiveDateTime` | `Date`, `Timestamp` |
/// | `chrono::DateTime<Utc>`, `jiff::Timestamp` | `Timestamptz` (PostgreSQL) |
/// | `uuid::Uuid` | `Uuid` (PostgreSQL) |
/// | `serde_json::Value` | `Json` |
/// | `JobId` | `BigInt` |
/// | `Option<T>` | `Nullable` of the type for `T` |
/// | `Vec<T>` | `Array` of the type for `T` (PostgreSQL) |
///
/// Implement it for your own types that have the same JSON form as one of these, such as newtypes.
#[diagnostic::on_unimplemented(
    message = "a query cannot provide an argument of type `{Self}`",
    note = "`ColumnArgument` has a table of the types that it can provide; implement it for a newtype of one of them"
)]
pub trait ColumnArgument {
    /// The SQL type of the expression.
    type SqlType: SqlType + TypedExpressionType;

    /// Whether its values are JSON, which may be nested too deeply to be read again. Such jobs are then checked before
    /// they are inserted. A type of your own with the SQL type `Json` must say so.
    const IS_JSON: bool = false;

    /// The SQL expression that converts a column to its JSON value on SQLite. PostgreSQL does not need it, because it
    /// knows the type of the column.
    fn in_sqlite(column: &str) -> String {
        column.to_owned()
    }
}

macro_rules! column_arguments {
    ($($argument:ty => $sql_type:ty),* $(,)?) => {$(
        impl ColumnArgument for $argument {
            type SqlType = $sql_type;
        }
    )*};
}

column_arguments! {
    i16 => sql::SmallInt,
    i32 => sql::Integer,
    i64 => sql::BigInt,
    f32 => sql::Float,
    f64 => sql::Double,
    String => sql::Text,
    chrono::NaiveDate => sql::Date,
    diesel_jobs_core::JobId => sql::BigInt,
}

#[cfg(feature = "postgres")]
column_arguments! {
    chrono::DateTime<chrono::Utc> => sql::Timestamptz,
    uuid::Uuid => sql::Uuid,
}

#[cfg(all(feature = "postgres", feature = "jiff"))]
column_arguments! {
    jiff::Timestamp => sql::Timestamptz,
}

impl ColumnArgument for bool {
    type SqlType = sql::Bool;

    fn in_sqlite(column: &str) -> String {
        format!("json(case {column} when 0 then 'false' when 1 then 'true' end)")
    }
}

impl ColumnArgument for chrono::NaiveDateTime {
    type SqlType = sql::Timestamp;

    fn in_sqlite(column: &str) -> String {
        format!("replace({column}, ' ', 'T')")
    }
}

impl ColumnArgument for serde_json::Value {
    type SqlType = sql::Json;
    const IS_JSON: bool = true;

    fn in_sqlite(column: &str) -> String {
        format!("json({column})")
    }
}

impl<T> ColumnArgument for Option<T>
where
    T: ColumnArgument,
    T::SqlType: SqlType<IsNull = sql::is_nullable::NotNull>,
    sql::Nullable<T::SqlType>: TypedExpressionType,
{
    type SqlType = sql::Nullable<T::SqlType>;
    const IS_JSON: bool = T::IS_JSON;

    fn in_sqlite(column: &str) -> String {
        T::in_sqlite(column)
    }
}

#[cfg(feature = "postgres")]
impl<T> ColumnArgument for Vec<T>
where
    T: ColumnArgument,
    sql::Array<T::SqlType>: SqlType + TypedExpressionType,
{
    type SqlType = sql::Array<T::SqlType>;
    const IS_JSON: bool = T::IS_JSON;
}

/// An expression of a query, or a value, that can be used for an argument of type `T`. It is converted to the
/// expression `E`.
// `E` is a parameter and no associated type. With an associated type, the compiler would print an error about that type
// instead of the message of this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fit the argument of type `{T}`",
    label = "not of the argument's SQL type",
    note = "pass a column or another expression of the argument's SQL type, or a value of the argument's type; for an `Option` write \
            `column.nullable()`; for a number write its type, as in `5_i64`"
)]
pub trait IntoColumn<T, E> {
    /// See [`ColumnArgument::IS_JSON`].
    const IS_JSON: bool;

    /// The expression.
    fn into_column(self) -> E;

    /// See [`ColumnArgument::in_sqlite`].
    fn in_sqlite(column: &str) -> String;
}

#[diagnostic::do_not_recommend]
impl<C, T> IntoColumn<T, C::Expression> for C
where
    T: ColumnArgument,
    C: AsExpression<T::SqlType>,
{
    const IS_JSON: bool = T::IS_JSON;

    fn into_column(self) -> C::Expression {
        self.as_expression()
    }

    fn in_sqlite(column: &str) -> String {
        T::in_sqlite(column)
    }
}
