//! Which servers of a URL are used. tokio-postgres knows `read-write` and `read-only`; the others ask the server
//! whether it is a standby.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

/// Which servers are used, besides what tokio-postgres looks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::pg) enum Role {
    /// The URL says nothing and has one host. A primary is expected there, and a standby answers what is read.
    #[default]
    Unstated,
    Any,
    Primary,
    Standby,
    /// A standby, or another server if there is none.
    PreferStandby,
}

diesel::define_sql_function! {
    /// Whether the server is a standby.
    fn pg_is_in_recovery() -> diesel::sql_types::Bool;
}

impl Role {
    /// The rounds in which the hosts are tried.
    pub(in crate::pg) fn rounds(self) -> &'static [Self] {
        match self {
            Self::Unstated => &[Self::Unstated],
            Self::Any => &[Self::Any],
            Self::Primary => &[Self::Primary],
            Self::Standby => &[Self::Standby],
            Self::PreferStandby => &[Self::Standby, Self::Any],
        }
    }

    /// Returns why this server is not used, or `None` if it is.
    pub(in crate::pg) async fn objection(self, conn: &mut AsyncPgConnection) -> QueryResult<Option<&'static str>> {
        let wants_standby = match self {
            Self::Unstated | Self::Any => return Ok(None),
            Self::Primary => false,
            Self::Standby | Self::PreferStandby => true,
        };
        Ok(match (wants_standby, is_standby(conn).await?) {
            (false, true) => Some("the server is a standby, and a primary is looked for"),
            (true, false) => Some("the server is a primary, and a standby is looked for"),
            _ => None,
        })
    }

    /// The value of `target_session_attrs` for libpq.
    #[cfg(feature = "postgres-sync")]
    pub(in crate::pg) fn name(self) -> &'static str {
        match self {
            Self::Unstated | Self::Any => "any",
            Self::Primary => "primary",
            Self::Standby => "standby",
            Self::PreferStandby => "prefer-standby",
        }
    }
}

/// Whether the server is a standby.
pub(in crate::pg) async fn is_standby(conn: &mut AsyncPgConnection) -> QueryResult<bool> {
    diesel::select(pg_is_in_recovery()).get_result(conn).await
}
