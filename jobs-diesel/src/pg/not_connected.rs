//! Why a connection could not be opened.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use diesel::ConnectionError;
use diesel_jobs_core::StorageError;
use tokio_postgres::error::SqlState;

use super::cause::{PoolerRefusal, lacks_password, refusal_of_pooler, refuses_certificate, with_cause};
use super::settings;
use crate::error::storage_error;
use crate::meaning::Meaning;

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotConnected {
    /// The server refused the user, the password or the client's certificate, or there is none.
    #[error("{0}")]
    Credentials(String),
    /// A pooler or the server perhaps refused the settings of the connection.
    #[error("{0}")]
    Settings(String),
    /// The server, the database or the role has as many connections as it may.
    #[error("{0}")]
    TooMany(String),
    /// No server has answered.
    #[error("{0}")]
    NoAnswer(String),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] ConnectionError),
}

impl NotConnected {
    pub(super) fn because(problem: String) -> Self {
        Self::Other(ConnectionError::BadConnection(problem))
    }

    /// What the error of the first statements means, if it was one of these.
    pub(super) fn meaning(&self) -> Option<Meaning> {
        match self {
            Self::Other(ConnectionError::CouldntSetupConfiguration(error)) => Some(Meaning::of(error)),
            _ => None,
        }
    }

    /// The code decides, because servers translate their messages. Only poolers have one for all errors.
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        let text = with_cause(error);
        match refusal_of_pooler(error) {
            Some(PoolerRefusal::Credentials) => return Self::Credentials(text),
            Some(PoolerRefusal::TooMany) => return Self::TooMany(text),
            None => {}
        }
        match error.code() {
            Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                Self::Credentials(text)
            }
            None if lacks_password(error) || refuses_certificate(error) => Self::Credentials(text),
            Some(&SqlState::TOO_MANY_CONNECTIONS) => Self::TooMany(text),
            Some(code) if settings::may_be_refused(code) => Self::Settings(text),
            None if is_network(error) => Self::NoAnswer(text),
            _ => Self::because(text),
        }
    }
}

/// What is said if a server took longer.
pub(super) fn silent(limit: Duration) -> String {
    format!("the server did not answer within {} s", limit.as_secs())
}

/// Whether there was no connection, or it has ended without an answer. Errors of TLS are of the kind `InvalidData`.
fn is_network(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    error.is_closed() || cause.is_some_and(|cause| cause.kind() != io::ErrorKind::InvalidData)
}

impl From<NotConnected> for StorageError {
    fn from(problem: NotConnected) -> Self {
        match problem {
            NotConnected::Credentials(text) => Self::Credentials(text.into()),
            NotConnected::Settings(text) | NotConnected::TooMany(text) | NotConnected::NoAnswer(text) => {
                Self::Unavailable(Box::new(ConnectionError::BadConnection(text)))
            }
            // Behind a pooler the first statements of a connection meet what other clients have prepared.
            NotConnected::Other(ConnectionError::CouldntSetupConfiguration(error))
                if Meaning::of(&error) == Meaning::MixedUp =>
            {
                storage_error(error)
            }
            NotConnected::Other(error) => Self::Unavailable(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use diesel::result::DatabaseErrorKind::Unknown;
    use diesel::result::Error;

    use super::*;

    /// What a server is understood to mean that refuses a connection with this code and this message.
    async fn refused(code: &str, message: &str) -> NotConnected {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://me@{}/app?sslmode=disable", listener.local_addr().unwrap());
        let fields = format!("SFATAL\0C{code}\0M{message}\0\0");
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 1024]).unwrap();
            let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
            client.write_all(&[b"E", &length[..], fields.as_bytes()].concat()).unwrap();
        });
        let config: tokio_postgres::Config = url.parse().unwrap();
        let problem = NotConnected::of(&config.connect(tokio_postgres::NoTls).await.err().unwrap());
        server.join().unwrap();
        problem
    }

    #[tokio::test]
    async fn what_poolers_mean_is_known_without_a_code() {
        for (code, message) in [
            ("08P01", "no more connections allowed (max_client_conn)"),
            ("08P01", "client connections exceeded (max_db_client_connections)"),
            ("XX000", "Max client connections reached"),
            ("XX000", "(EMAXCONN) max client connections reached, limit: 200"),
            (
                "XX000",
                "MaxClientsInSessionMode: max clients reached - in Session mode max clients are limited to pool_size",
            ),
            ("53300", "sorry, too many clients already"),
        ] {
            let problem = refused(code, message).await;
            assert!(matches!(problem, NotConnected::TooMany(_)), "{message}: {problem:?}");
        }
        for (code, message) in [
            ("08P01", "SASL authentication failed"),
            ("XX000", "Tenant or user not found"),
            ("XX000", "(ENOTFOUND) tenant/user postgres.abc not found"),
            ("XX000", "(ENOIDENTIFIER) no tenant identifier provided (external_id or sni_hostname required)"),
        ] {
            let problem = refused(code, message).await;
            assert!(matches!(problem, NotConnected::Credentials(_)), "{message}: {problem:?}");
        }
        let settings = refused("08P01", "unsupported startup parameter: options").await;
        assert!(matches!(settings, NotConnected::Settings(_)), "{settings:?}");
        for (code, message) in [("XX000", "cache lookup failed for type 7"), ("57P03", "user not found")] {
            let problem = refused(code, message).await;
            assert!(matches!(problem, NotConnected::Other(_)), "{message}: {problem:?}");
        }
    }

    #[test]
    fn a_session_with_the_statements_of_others_is_no_outage() {
        let of = |message: &str| {
            let error = Error::DatabaseError(Unknown, Box::new(message.to_owned()));
            StorageError::from(NotConnected::Other(ConnectionError::CouldntSetupConfiguration(error)))
        };
        for message in ["prepared statement \"s6\" already exists", "prepared statement \"s6\" does not exist"] {
            let problem = of(message);
            assert!(matches!(problem, StorageError::Refused(_)), "{problem}");
            assert!(problem.to_string().contains("the pooler must support prepared statements"), "{problem}");
        }
        assert!(matches!(of("the database system is shutting down"), StorageError::Unavailable(_)));
    }
}
