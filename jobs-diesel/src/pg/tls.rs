//! The TLS of connections: rustls with ring, no system library.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::url_source::may_hold_a_password;

/// What is checked of the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nothing: the connection is encrypted, but the server's identity is not checked.
    Nothing,
    /// Its chain must lead to a trusted root.
    Chain,
    /// In addition, it must name the host.
    ChainAndName,
}

/// The files of a client's certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// How connections are encrypted. Its files are read for each connection, because certificates are renewed while a
/// worker runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) verify: Verify,
    /// A file of root certificates, or `system`.
    pub(crate) roots: Option<String>,
    pub(crate) identity: Option<Identity>,
    pub(crate) only_tls12: bool,
    pub(crate) only_tls13: bool,
    /// The password proves to whom the connection leads, with the help of the server's certificate.
    pub(crate) binds: bool,
}

impl Tls {
    pub(crate) fn connector(&self) -> StorageResult<MakeRustlsConnect> {
        let Self { verify, roots, identity, only_tls12, only_tls13, binds } = self;
        let roots = roots.as_deref();
        let versions: &[_] = match (only_tls12, only_tls13) {
            (true, _) => &[&TLS12],
            (_, true) => &[&TLS13],
            _ => &[&TLS12, &TLS13],
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| StorageError::Config(format!("TLS: {error}")))?;
        let chain = match verify {
            Verify::Nothing => None,
            Verify::Chain | Verify::ChainAndName => Some(Chain::to(trusted(roots)?, &provider)?),
        };
        let checks_name = *verify == Verify::ChainAndName;
        let verifier = Verifier { provider, chain, checks_name, binds: *binds };
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(MakeRustlsConnect::new(match identity {
            Some(identity) => identity.add_to(builder)?,
            None => builder.with_no_client_auth(),
        }))
    }
}

impl Identity {
    fn add_to(&self, builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> StorageResult<ClientConfig> {
        let Self { certificate, key } = self;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&content("sslcert", certificate)?)
            .collect::<Result<_, _>>()
            .map_err(|problem| refused("sslcert", certificate, problem))?;
        if chain.is_empty() {
            return Err(refused("sslcert", certificate, "the file holds no certificate"));
        }
        let private = PrivateKeyDer::from_pem_slice(&content("sslkey", key)?).map_err(|problem| match problem {
            pem::Error::NoItemsFound => {
                refused("sslkey", key, "the file holds no key that can be read; a key with a password cannot")
            }
            other => refused("sslkey", key, other),
        })?;
        builder.with_client_auth_cert(chain, private).map_err(|problem| refused("sslkey", key, problem))
    }
}

/// The content of a file that a parameter of the URL names.
fn content(parameter: &str, path: &str) -> StorageResult<Vec<u8>> {
    std::fs::read(path).map_err(|problem| refused(parameter, path, problem))
}

fn refused(parameter: &str, path: &str, problem: impl Display) -> StorageError {
    StorageError::Config(match may_hold_a_password(path) {
        true => format!("the database URL has another URL as {parameter}; write the path of a file"),
        false => format!("the database URL has {parameter}={path}: {problem}"),
    })
}

/// The certificates that are trusted.
#[derive(Clone)]
struct Trusted {
    store: Arc<RootCertStore>,
    /// Those of a file.
    certificates: Vec<CertificateDer<'static>>,
}

/// What `sslrootcert` names instead of a file for the roots of the system.
pub(super) const SYSTEM: &str = "system";

/// The roots of a PEM file, or the system's.
fn trusted(path: Option<&str>) -> StorageResult<Trusted> {
    /// They are many, and only an update of the system changes them.
    static OF_SYSTEM: OnceLock<Trusted> = OnceLock::new();
    let mut store = RootCertStore::empty();
    let Some(path) = path.filter(|path| *path != SYSTEM) else {
        let read = || {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Trusted { store: Arc::new(store), certificates: Vec::new() }
        };
        return Ok(OF_SYSTEM.get_or_init(read).clone());
    };
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&content("sslrootcert", path)?) {
        let certificate = certificate.map_err(|problem| refused("sslrootcert", path, problem))?;
        store.add(certificate.clone()).map_err(|problem| refused("sslrootcert", path, problem))?;
        certificates.push(certificate);
    }
    if store.is_empty() {
        return Err(refused("sslrootcert", path, "the file holds no certificate"));
    }
    Ok(Trusted { store: Arc::new(store), certificates })
}

/// Checks that a certificate leads to a trusted one, or is one.
#[derive(Debug)]
struct Chain {
    webpki: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Chain {
    fn to(trusted: Trusted, provider: &Arc<CryptoProvider>) -> StorageResult<Self> {
        let webpki = WebPkiServerVerifier::builder_with_provider(trusted.store, provider.clone())
            .build()
            .map_err(|error| StorageError::Config(format!("TLS: {error}")))?;
        Ok(Self { webpki, trusted: trusted.certificates })
    }

    /// Tools make self-signed certificates as those of an authority, which webpki does not accept from a server. It
    /// says so after it has checked the period in which the certificate is valid.
    fn is_trusted_itself(&self, end_entity: &CertificateDer<'_>, problem: &CertificateError) -> bool {
        matches!(problem, CertificateError::Other(other) if other.to_string() == OF_AUTHORITY)
            && self.trusted.iter().any(|trusted| trusted == end_entity)
    }
}

/// How webpki refuses the certificate of an authority as that of a server.
pub(super) const OF_AUTHORITY: &str = "CaUsedAsEndEntity";

/// Checks what the URL asks for, and in any case the server's signature. But webpki reads only certificates of version
/// 3, and libpq accepts others. If no chain is checked and the password is not bound to the certificate, a signature
/// says nothing about the server, so it is not checked with a certificate that webpki cannot read.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None`: it is not checked.
    chain: Option<Chain>,
    checks_name: bool,
    binds: bool,
}

impl Verifier {
    fn is_ignored(&self, cert: &CertificateDer<'_>) -> bool {
        self.chain.is_none() && !self.binds && ParsedCertificate::try_from(cert).is_err()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let mut verdict = chain.webpki.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        if let Err(Error::InvalidCertificate(problem)) = &verdict
            && chain.is_trusted_itself(end_entity, problem)
        {
            let named = verify_server_name(&ParsedCertificate::try_from(end_entity)?, name);
            verdict = named.map(|()| ServerCertVerified::assertion());
        }
        match verdict {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.is_ignored(cert) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.is_ignored(cert) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
