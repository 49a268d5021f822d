//! The TLS of connections: rustls with ring, no system library.

use std::io::Read as _;
use std::sync::Arc;

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
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

pub(crate) fn connector(verify: Verify, roots: Option<&str>) -> StorageResult<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| StorageError::Config(format!("TLS: {error}")))?;
    let config = match verify {
        Verify::Nothing => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Lenient { provider, chain: None }))
        }
        Verify::Chain => {
            let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(trusted(roots)?), provider.clone())
                .build()
                .map_err(|error| StorageError::Config(format!("TLS: {error}")))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Lenient { provider, chain: Some(chain) }))
        }
        Verify::ChainAndName => builder.with_root_certificates(trusted(roots)?),
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

/// The roots of a PEM file, or the system's.
fn trusted(path: Option<&str>) -> StorageResult<RootCertStore> {
    let mut store = RootCertStore::empty();
    let Some(path) = path.filter(|path| *path != "system") else {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(store);
    };
    let refused = |problem: String| StorageError::Config(format!("the database URL has sslrootcert={path}: {problem}"));
    let mut pem = Vec::new();
    std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut pem)).map_err(|e| refused(e.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|e| refused(format!("{e:?}")))?;
        store.add(certificate).map_err(|e| refused(e.to_string()))?;
    }
    if store.is_empty() {
        return Err(refused("holds no certificate".to_owned()));
    }
    Ok(store)
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
