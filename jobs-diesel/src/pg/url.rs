//! Reads what a URL says, before our own settings are added.

use std::str::FromStr;

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::Verify;

/// The parameters that tokio-postgres reads. We read those of TLS ourselves.
const PARAMETERS: [&str; 18] = [
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "sslnegotiation",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
];

pub(super) struct Url<'u> {
    pub(super) config: Config,
    /// The parameters, as they are written in the URL.
    pub(super) query: &'u str,
    pub(super) mode: SslMode,
    /// What is checked of the server's certificate. `None` if nothing is encrypted.
    pub(super) verify: Option<Verify>,
    /// A file of root certificates, for the check of the server's certificate.
    pub(super) roots: Option<String>,
}

impl<'u> Url<'u> {
    /// `sslmode` has the same meaning as for libpq.
    pub(super) fn read(url: &'u str) -> StorageResult<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut sslmode = "prefer";
        let mut roots = None;
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", mode)) => sslmode = mode,
                Some(("sslrootcert", path)) => roots = Some(percent_decoded(path)),
                key_and_value => {
                    let key = key_and_value.map_or(pair, |(key, _)| key);
                    if !PARAMETERS.contains(&key) {
                        // If the `?` belongs to a password, this name of a parameter is the rest of the password.
                        if query.contains('@') {
                            return Err(not_a_url());
                        }
                        return Err(StorageError::Config(format!(
                            "the database URL has the unknown parameter {key:?}; it may have sslmode, sslrootcert, {}",
                            PARAMETERS.join(", ")
                        )));
                    }
                    others.push(pair);
                }
            }
        }
        let bare = if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
        // The parser's message may repeat a part of the URL, which may hold the password.
        let config = Config::from_str(&bare).map_err(|_| not_a_url())?;
        // The parser ends the password at its first `@`. No name of a host contains one.
        if config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(name) if name.contains('@'))) {
            return Err(not_a_url());
        }
        let (mode, verify) = match sslmode {
            "disable" => (SslMode::Disable, None),
            "allow" | "prefer" => (SslMode::Prefer, Some(Verify::Nothing)),
            // As with libpq, `require` checks against the roots if the URL names any.
            "require" if roots.is_none() => (SslMode::Require, Some(Verify::Nothing)),
            "require" | "verify-ca" => (SslMode::Require, Some(Verify::Chain)),
            "verify-full" => (SslMode::Require, Some(Verify::ChainAndName)),
            _ if query.contains('@') => return Err(not_a_url()),
            other => {
                return Err(StorageError::Config(format!(
                    "the database URL has sslmode={other}, which is unknown; write disable, prefer, require, verify-ca or verify-full"
                )));
            }
        };
        Ok(Self { config, query, mode, verify, roots })
    }
}

/// The error repeats no part of the URL, because it is unknown where the password was meant to end.
fn not_a_url() -> StorageError {
    StorageError::Config(
        "the database URL is not a valid PostgreSQL URL; write postgres://user:password@host:5432/database, with special \
         characters of the password percent-encoded: `@` as %40, `:` as %3A, `/` as %2F, `?` as %3F, `#` as %23 and `%` as %25"
            .to_owned(),
    )
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, hex) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::connect::Connector;

    fn refusal(url: &str) -> String {
        Connector::from_url(url).err().expect("refused").to_string()
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        let message = refusal("postgres://me:s3cret@host:notaport/db");
        assert!(message.contains("not a valid PostgreSQL URL") && !message.contains("s3cret"), "{message}");
        // A `?` that is not percent-encoded ends the password, and the rest of the password looks like parameters.
        for url in ["me:x?s3cret@host/db", "me:x?s3cret=y@host/db", "me:x?sslmode=s3cret@host/db", "me:x?a&s3cret@host"]
        {
            let message = refusal(&format!("postgres://{url}"));
            assert!(message.contains("percent-encoded") && !message.contains("s3cret"), "{url}: {message}");
        }
    }

    #[test]
    fn an_at_sign_in_the_password_is_refused_with_the_way_to_write_it() {
        for url in
            ["postgres://me:x@s3cret@host/db", "postgres://me:x@s3cret@host", "postgres://me:x@s3cret@[::1]:5432/db"]
        {
            let message = refusal(url);
            assert!(message.contains("`@` as %40") && !message.contains("s3cret"), "{url}: {message}");
        }
        assert!(Connector::from_url("postgres://me:x%40y@host/db").is_ok());
        assert!(Connector::from_url("postgres://me:x%40y@host/db@home").is_ok(), "the database's name may contain it");
    }

    #[test]
    fn every_sslmode_of_libpq_is_understood_and_others_are_named() {
        for mode in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
            assert!(
                Connector::from_url(&format!("postgres://localhost/x?sslmode={mode}&application_name=y")).is_ok(),
                "{mode}"
            );
        }
        assert!(refusal("postgres://localhost/x?sslmode=maybe").contains("maybe"));
        let misspelt = refusal("postgres://localhost/x?sslmod=require");
        assert!(misspelt.contains("unknown parameter \"sslmod\""), "{misspelt}");
        assert!(
            refusal("postgres://localhost/x?sslmode=verify-ca&sslrootcert=%2Fno%2Fsuch.pem").contains("/no/such.pem")
        );
    }
}
