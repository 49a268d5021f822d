//! Adds what tokio-postgres leaves out of an error's text.

use tokio_postgres::error::SqlState;

use super::tls::OF_AUTHORITY;

/// The texts of tokio-postgres, which has no codes for these errors. They are not translated.
const NO_PASSWORD: &str = "password missing";
const NO_TLS: &str = "server does not support TLS";

/// Whether the server asks for a password that neither the URL nor the application has given.
pub(super) fn lacks_password(error: &tokio_postgres::Error) -> bool {
    error.code().is_none() && std::error::Error::source(error).is_some_and(|cause| cause.to_string() == NO_PASSWORD)
}

/// Whether the server refuses the client's certificate. It says so in an alert of TLS, and most servers do so after the
/// handshake, when the client first reads.
pub(super) fn refuses_certificate(error: &tokio_postgres::Error) -> bool {
    use rustls::AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked, CertificateUnknown,
        DecryptError, NoCertificate, UnknownCA, UnsupportedCertificate,
    };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        // The source of an error of the system is the source of what it wraps, and not the wrapped error.
        let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let of_tls = wrapped.and_then(|wrapped| wrapped.downcast_ref()).or_else(|| cause.downcast_ref());
        if let Some(rustls::Error::AlertReceived(alert)) = of_tls {
            return matches!(
                alert,
                AccessDenied
                    | BadCertificate
                    | CertificateExpired
                    | CertificateRequired
                    | CertificateRevoked
                    | CertificateUnknown
                    | DecryptError
                    | NoCertificate
                    | UnknownCA
                    | UnsupportedCertificate
            );
        }
        source = cause.source();
    }
    false
}

/// What a pooler says that refuses the user, the password or the certificate, by itself or in the name of the server.
/// PgBouncer names the method: SASL, password, certificate, PAM and others. Supavisor knows no such user or project.
const NO_ADMITTANCE: [&str; 7] = [
    "authentication failed",
    "no such user",
    "login rejected",
    "tenant or user not found",
    "tenant/user ",
    "user not found",
    "no tenant identifier",
];

/// What a pooler says that has as many connections as it may.
const FULL: [&str; 4] =
    ["no more connections allowed", "client connections exceeded", "max client connections", "max clients reached"];

/// Why a pooler refuses a connection.
pub(super) enum PoolerRefusal {
    Credentials,
    TooMany,
}

/// Why a pooler refuses a connection, if its code does not say it. PgBouncer calls everything a violated protocol
/// (08P01), and Supavisor an internal error (XX000). Neither translates its messages, so they decide here, and for no
/// other code.
pub(super) fn refusal_of_pooler(error: &tokio_postgres::Error) -> Option<PoolerRefusal> {
    let said = error
        .as_db_error()
        .filter(|said| [SqlState::PROTOCOL_VIOLATION, SqlState::INTERNAL_ERROR].contains(said.code()))?;
    let text = said.message().to_ascii_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    match (says(&NO_ADMITTANCE), says(&FULL)) {
        (true, _) => Some(PoolerRefusal::Credentials),
        (_, true) => Some(PoolerRefusal::TooMany),
        _ => None,
    }
}

/// tokio-postgres says only "error connecting to server". This adds the reasons from the error's sources, and for some
/// errors what to do.
pub(super) fn with_cause(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    if lacks_password(error) {
        return "the server asks for a password, and none was given; write it into the database URL: postgres://user:password@host/database, \
                or into PGPASSWORD: PGPASSFILE and ~/.pgpass are not read"
            .to_owned();
    }
    let advice = match error.code() {
        Some(&SqlState::INVALID_CATALOG_NAME) => "; create it first, for example with `createdb`",
        // With this code a server also refuses a setting of the connection, which its message then names.
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            "; if the role may not connect to this database, its owner allows it with `grant connect on database .. to ..`"
        }
        _ if refuses_certificate(error) => {
            "; so the server refuses the client's certificate, the file that sslcert names: it must not have expired, and an authority of the \
             server's ssl_ca_file must have signed it; the server's log has the reason"
        }
        _ if text.contains(NO_TLS) => {
            "; the server answers, but not with TLS: turn on `ssl` in the server, or write sslmode=prefer if this connection need not be \
             encrypted"
        }
        _ if text.contains("UnknownIssuer") => {
            "; name the authority that signed the server's certificate: sslrootcert=/path/to/ca.pem"
        }
        _ if text.contains("UnsupportedCertVersion") => {
            "; the server's certificate is of X.509 version 1, which cannot be checked: issue it again with a subjectAltName"
        }
        _ if text.contains(OF_AUTHORITY) => {
            "; the server's certificate is that of an authority (CA:TRUE), and not one of sslrootcert: issue one for the server"
        }
        _ => "",
    };
    text + advice
}
