//! Native SQL with typed binds, for statements that Diesel's DSL cannot express. Diesel caches these prepared
//! statements. It never caches an `update` of its DSL or a `sql_query`.

/// Writes a native statement: string literals are SQL, `[value => SqlType]` is a bind, `{part}` another fragment.
macro_rules! sql {
    ($out:ident, $($piece:tt)*) => {{ $( $crate::native::sql_piece!($out, $piece); )* diesel::QueryResult::<()>::Ok(()) }};
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

/// The same for a statement that has several texts.
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
