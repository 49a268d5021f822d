//! The server's certificate, that of a client, and the authority that signed both, made once per cluster.
//!
//! The authority's key is not stored. So it can sign no other certificate.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::owner::Owner;

pub(crate) struct Certificate {
    pub(crate) authority: PathBuf,
    pub(crate) server: PathBuf,
    pub(crate) key: PathBuf,
    /// The certificate and the key of a client, for those who know the directory.
    client: [PathBuf; 2],
}

impl Certificate {
    pub(crate) fn within(home: &Path) -> Self {
        let client = ["client.pem", "client.key"].map(|name| home.join(name));
        Self { authority: home.join("ca.pem"), server: home.join("server.pem"), key: home.join("server.key"), client }
    }

    /// Creates the files, unless all of them exist.
    pub(crate) fn ensure(&self, owner: &Owner) -> Result<()> {
        let [client, client_key] = &self.client;
        let all = [&self.authority, &self.server, &self.key, client, client_key];
        if all.iter().all(|path| path.exists()) {
            return Ok(());
        }
        let [authority, server, key, of_client, key_of_client] =
            make().context("cannot make the test server's certificate")?;
        write(&self.authority, &authority, 0o644)?;
        write(&self.server, &server, 0o644)?;
        write(client, &of_client, 0o644)?;
        write(client_key, &key_of_client, 0o600)?;
        // PostgreSQL requires that no other user can read its key.
        write(&self.key, &key, 0o600)?;
        owner.give(&self.key)
    }
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let attempt = || {
        if path.exists() {
            fs::remove_file(path)?;
        }
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
    };
    attempt().with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the authority's certificate, and the certificates and keys of the server and of a client, as PEM.
fn make() -> Result<[String; 5], rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name.push(DnType::CommonName, "jobs test authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();

    let mut server = CertificateParams::new(["localhost", "127.0.0.1"].map(String::from))?;
    server.distinguished_name.push(DnType::CommonName, "localhost");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    let server_key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let server_pem = server.signed_by(&server_key, &issuer)?.pem();

    let mut client = CertificateParams::new(Vec::new())?;
    client.distinguished_name.push(DnType::CommonName, "certified");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    client.use_authority_key_identifier_extension = true;
    let client_key = KeyPair::generate()?;
    let client_pem = client.signed_by(&client_key, &issuer)?.pem();
    Ok([authority_pem, server_pem, server_key.serialize_pem(), client_pem, client_key.serialize_pem()])
}
