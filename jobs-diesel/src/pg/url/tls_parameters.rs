//! The parameters of a database URL that say how connections are encrypted.

use tokio_postgres::Config;
use tokio_postgres::config::{SslMode as Encryption, SslNegotiation};

use super::value::{Allowed, one_of};
use crate::pg::tls::{Identity, SYSTEM, Tls, Verify};

/// What the parameters say.
#[derive(Default)]
pub(super) struct TlsParameters {
    mode: Option<SslMode>,
    /// Whether the URL has `sslnegotiation=direct`.
    direct: bool,
    roots: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    sends_certificate: Option<SendsCertificate>,
    only_tls12: bool,
    only_tls13: bool,
}

/// What `sslmode` says.
#[derive(Clone, Copy)]
enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// What `sslcertmode` says.
#[derive(Clone, Copy)]
enum SendsCertificate {
    Never,
    IfThereIsOne,
    Always,
}

const VERSIONS: &str = "write TLSv1.2 or TLSv1.3; older versions are never used";

impl TlsParameters {
    pub(super) fn set(&mut self, config: &mut Config, name: &str, value: &str) -> Result<(), Allowed> {
        let path = || (!value.is_empty()).then(|| value.to_owned()).ok_or("write the path of a file");
        match name {
            "sslmode" => {
                let modes = [
                    ("disable", SslMode::Disable),
                    ("allow", SslMode::Prefer),
                    ("prefer", SslMode::Prefer),
                    ("require", SslMode::Require),
                    ("verify-ca", SslMode::VerifyCa),
                    ("verify-full", SslMode::VerifyFull),
                ];
                self.mode =
                    Some(one_of(value, modes, "write disable, allow, prefer, require, verify-ca or verify-full")?);
            }
            "sslnegotiation" => {
                self.direct = one_of(value, [("postgres", false), ("direct", true)], "write postgres or direct")?;
                config.ssl_negotiation(if self.direct { SslNegotiation::Direct } else { SslNegotiation::Postgres });
            }
            "sslrootcert" => self.roots = Some(path()?),
            "sslcert" => self.certificate = Some(path()?),
            "sslkey" => self.key = Some(path()?),
            "sslcertmode" => {
                let values = [
                    ("disable", SendsCertificate::Never),
                    ("allow", SendsCertificate::IfThereIsOne),
                    ("require", SendsCertificate::Always),
                ];
                self.sends_certificate = Some(one_of(value, values, "write disable, allow or require")?);
            }
            "sslsni" => one_of(value, [("1", ())], "leave it out: the name of the host is always sent")?,
            "ssl_min_protocol_version" => {
                let values = [("TLSv1", false), ("TLSv1.1", false), ("TLSv1.2", false), ("TLSv1.3", true)];
                self.only_tls13 = one_of(value, values, VERSIONS)?;
            }
            "ssl_max_protocol_version" => {
                self.only_tls12 = one_of(value, [("TLSv1.2", true), ("TLSv1.3", false)], VERSIONS)?;
            }
            // `KNOWN` in `parameters.rs` has no other names.
            _ => {}
        }
        Ok(())
    }

    /// As with libpq, a certificate that one of the system's authorities has signed says nothing without its name.
    fn mode(&self) -> SslMode {
        let unset = if self.of_system() { SslMode::VerifyFull } else { SslMode::Prefer };
        self.mode.unwrap_or(unset)
    }

    fn of_system(&self) -> bool {
        self.roots.as_deref() == Some(SYSTEM)
    }

    /// Whether connections are encrypted, for tokio-postgres.
    pub(super) fn encryption(&self) -> Encryption {
        match self.mode() {
            SslMode::Disable => Encryption::Disable,
            SslMode::Prefer => Encryption::Prefer,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Encryption::Require,
        }
    }

    /// How connections are encrypted. `binds`: the URL has `channel_binding=require`. `None`: nothing is encrypted. The
    /// error says what does not fit together. Whether the files can be read is not known yet.
    pub(super) fn read(self, binds: bool) -> Result<Option<Tls>, &'static str> {
        match self.mode() {
            SslMode::VerifyFull => {}
            _ if self.of_system() => {
                return Err("sslrootcert=system and a weaker sslmode than verify-full; write sslmode=verify-full");
            }
            SslMode::Disable | SslMode::Prefer if self.direct => {
                return Err("sslnegotiation=direct without sslmode=require, verify-ca or verify-full; add one of them");
            }
            _ => {}
        }
        let mode = self.mode();
        let Self { roots, certificate, key, sends_certificate, only_tls12, only_tls13, .. } = self;
        if only_tls12 && only_tls13 {
            return Err("ssl_min_protocol_version=TLSv1.3 and ssl_max_protocol_version=TLSv1.2; no version is left");
        }
        let identity = match (certificate, key, sends_certificate) {
            (None, None, Some(SendsCertificate::Always)) => {
                return Err("sslcertmode=require and no certificate; write sslcert and sslkey");
            }
            (Some(_), None, _) => return Err("sslcert and no sslkey; write both, or neither"),
            (None, Some(_), _) => return Err("sslkey and no sslcert; write both, or neither"),
            (Some(_), Some(_), Some(SendsCertificate::Never)) | (None, None, _) => None,
            (Some(certificate), Some(key), _) => Some(Identity { certificate, key }),
        };
        let verify = match mode {
            SslMode::Disable => return Ok(None),
            SslMode::Prefer => Verify::Nothing,
            // As with libpq, `require` checks against the roots if the URL names any.
            SslMode::Require if roots.is_none() => Verify::Nothing,
            SslMode::Require | SslMode::VerifyCa => Verify::Chain,
            SslMode::VerifyFull => Verify::ChainAndName,
        };
        Ok(Some(Tls { verify, roots, identity, only_tls12, only_tls13, binds }))
    }
}
