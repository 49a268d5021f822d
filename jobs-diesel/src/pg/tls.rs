//! The TLS of connections: rustls with ring, no system library.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

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
}

impl Tls {
    pub(crate) fn connector(&self) -> StorageResult<MakeRustlsConnect> {
        let Self { verify, roots, identity, only_tls12, only_tls13 } = self;
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
        let builder = match verify {
            Verify::Nothing => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Lenient { provider, chain: None }))
            }
            Verify::Chain => {
                let chain = WebPkiServerVerifier::builder_with_provider(trusted(roots)?, provider.clone())
                    .build()
                    .map_err(|error| StorageError::Config(format!("TLS: {error}")))?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Lenient { provider, chain: Some(chain) }))
            }
            Verify::ChainAndName => builder.with_root_certificates(trusted(roots)?),
        };
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
    StorageError::Config(format!("the database URL has {parameter}={path}: {problem}"))
}

/// The roots of a PEM file, or the system's.
fn trusted(path: Option<&str>) -> StorageResult<Arc<RootCertStore>> {
    /// They are many, and only an update of the system changes them.
    static OF_SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let mut store = RootCertStore::empty();
    let Some(path) = path.filter(|path| *path != "system") else {
        let read = || {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(store)
        };
        return Ok(OF_SYSTEM.get_or_init(read).clone());
    };
    for certificate in CertificateDer::pem_slice_iter(&content("sslrootcert", path)?) {
        let certificate = certificate.map_err(|problem| refused("sslrootcert", path, problem))?;
        store.add(certificate).map_err(|problem| refused("sslrootcert", path, problem))?;
    }
    if store.is_empty() {
        return Err(refused("sslrootcert", path, "the file holds no certificate"));
    }
    Ok(Arc::new(store))
}

/// Checks less than rustls does: the chain without the name, or nothing. Signatures are always checked.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
