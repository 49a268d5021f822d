//! Certificates of servers that are not as authorities issue them: those that people make by hand.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cluster::{Own, Stop};
use diesel_jobs::{Database, StorageError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SigningKey as _, date_time_ymd,
};
use tempfile::TempDir;

/// A server whose certificate the test chooses.
struct World {
    port: u16,
    // The server must end before its directory.
    server: Own,
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        // The server's user must be able to enter it, or its files are elsewhere.
        let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
        let server = Own::at(dir.path()).unwrap();
        server.prepare().unwrap();
        let port = server.launch(None, "").unwrap();
        Self { port, server, dir }
    }

    /// Starts the server again with this certificate (PEM) and its key.
    fn present(&self, certificate: &str, key: &KeyPair) {
        self.server.halt(Stop::Fast).unwrap();
        // The files keep their owner and their mode.
        fs::write(self.server.home().join("server.pem"), certificate).unwrap();
        fs::write(self.server.home().join("server.key"), key.serialize_pem()).unwrap();
        self.server.launch(Some(self.port), "").unwrap();
    }

    /// Writes a file of trusted certificates.
    fn trust(&self, certificate: &str) -> PathBuf {
        let path = self.dir.path().join("trusted.pem");
        fs::write(&path, certificate).unwrap();
        path
    }

    /// Connects to the server as the host of this name, with these parameters.
    async fn connect(&self, host: &str, parameters: &str) -> Result<(), String> {
        let url = format!("postgres://tester@{host}:{}/postgres?hostaddr=127.0.0.1&{parameters}", self.port);
        let database = Database::open(&url, 1).await.map_err(|error| error.to_string())?;
        database.migrator.up().await.map(drop).map_err(|error| error.to_string())
    }

    /// Connects to `localhost` in each mode that checks the certificate.
    async fn verified(&self, trusted: &Path) -> Vec<Result<(), String>> {
        let mut all = Vec::new();
        for mode in ["require", "verify-ca", "verify-full"] {
            all.push(self.connect("localhost", &format!("sslmode={mode}&sslrootcert={}", trusted.display())).await);
        }
        all
    }
}

/// Asserts that every mode refuses the certificate, and says this.
#[track_caller]
fn all_refuse(modes: &[Result<(), String>], part: &str) {
    for mode in modes {
        assert!(mode.as_ref().is_err_and(|error| error.contains(part)), "{part:?}: {modes:#?}");
    }
}

/// As `openssl req -new -x509` makes it: its subject is its issuer, and it is marked as that of an authority.
fn self_signed() -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

#[tokio::test]
async fn a_certificate_that_is_trusted_itself_is_accepted_for_its_name_and_its_time() {
    let world = World::new();
    let (params, key) = (self_signed(), KeyPair::generate().unwrap());
    let certificate = params.self_signed(&key).unwrap().pem();
    world.present(&certificate, &key);
    let trusted = world.trust(&certificate);
    assert_eq!(world.verified(&trusted).await, [Ok(()), Ok(()), Ok(())]);
    let of_file = format!("sslrootcert={}", trusted.display());
    let other_name = async |mode: &str| world.connect("db.example.org", &format!("sslmode={mode}&{of_file}")).await;
    assert_eq!(other_name("verify-ca").await, Ok(()));
    all_refuse(&[other_name("verify-full").await], "not valid for name");

    // The same subject with another key is another server.
    let stranger = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    all_refuse(&world.verified(&world.trust(&stranger)).await, "is that of an authority (CA:TRUE)");

    // One of an authority that a trusted authority has signed.
    let authority = CertifiedIssuer::self_signed(self_signed(), KeyPair::generate().unwrap()).unwrap();
    let signed = params.signed_by(&key, &authority).unwrap().pem();
    world.present(&signed, &key);
    all_refuse(&world.verified(&world.trust(&authority.pem())).await, "is that of an authority (CA:TRUE)");

    for (from, to, part) in [(2000, 2001, "expired"), (2500, 2501, "not valid yet")] {
        let mut params = self_signed();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        let certificate = params.self_signed(&key).unwrap().pem();
        world.present(&certificate, &key);
        all_refuse(&world.verified(&world.trust(&certificate)).await, part);
        assert_eq!(world.connect("localhost", "sslmode=require").await, Ok(()), "nothing is checked");
    }
}

/// Whether a connection was closed while the client wrote to it.
fn is_cut(problem: &str) -> bool {
    problem.contains("Broken pipe") || problem.contains("reset by peer")
}

/// Such a certificate is replaced like a password, so it ends a worker like one.
#[tokio::test]
async fn a_certificate_of_the_client_that_the_server_refuses_counts_as_refused_credentials() {
    let world = World::new();
    let issuer = |name: &str| {
        let mut params = self_signed();
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let [trusted, of_its_name, stranger] = ["authority", "authority", "stranger"].map(issuer);
    world.server.halt(Stop::Fast).unwrap();
    fs::write(world.server.home().join("ca.pem"), trusted.pem()).unwrap();
    world.server.launch(Some(world.port), "").unwrap();
    let client = || {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "client");
        params
    };
    let mut expired = client();
    (expired.not_before, expired.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2001, 1, 1));
    let mut of_servers = client();
    of_servers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for (params, issuer, alert) in [
        (client(), &trusted, None),
        (client(), &stranger, Some("UnknownCA")),
        (client(), &of_its_name, Some("DecryptError")),
        (expired, &trusted, Some("CertificateExpired")),
        (of_servers, &trusted, Some("UnsupportedCertificate")),
    ] {
        let key = KeyPair::generate().unwrap();
        let [certificate, private] = ["client.pem", "client.key"].map(|name| world.dir.path().join(name));
        fs::write(&certificate, params.signed_by(&key, issuer).unwrap().pem()).unwrap();
        fs::write(&private, key.serialize_pem()).unwrap();
        for versions in ["TLSv1.2", "TLSv1.3"] {
            let url = format!(
                "postgres://tester@127.0.0.1:{}/postgres?sslmode=require&sslcert={}&sslkey={}&ssl_min_protocol_version={versions}\
                 &ssl_max_protocol_version={versions}",
                world.port,
                certificate.display(),
                private.display()
            );
            let database = Database::open(&url, 1).await.unwrap();
            let up = async {
                loop {
                    match database.migrator.up().await {
                        // The server has closed the connection before its alert could be read. The next try tells.
                        Err(StorageError::Unavailable(problem)) if is_cut(&problem.to_string()) => {}
                        answer => return answer,
                    }
                }
            };
            let answer = support::within(support::LIMIT, "the alert", up).await;
            match alert {
                None => drop(answer.unwrap()),
                Some(alert) => {
                    let error = answer.unwrap_err();
                    assert!(matches!(error, StorageError::Credentials(_)), "{versions}: {error}");
                    let text = error.to_string();
                    assert!(text.contains(alert) && text.contains("the file that sslcert names"), "{versions}: {text}");
                }
            }
        }
    }
}

/// As `openssl x509 -req` makes it without a file of extensions.
#[tokio::test]
async fn a_certificate_of_version_1_is_accepted_where_none_is_checked() {
    let world = World::new();
    let key = KeyPair::generate().unwrap();
    let certificate = of_version_1(self_signed().self_signed(&key).unwrap().der(), &key);
    world.present(&certificate, &key);
    for parameters in ["sslmode=prefer", "sslmode=require", "sslmode=require&ssl_max_protocol_version=TLSv1.2"] {
        assert_eq!(world.connect("localhost", parameters).await, Ok(()), "{parameters}");
    }
    let refusal = "of X.509 version 1, which cannot be checked: issue it again";
    all_refuse(&world.verified(&world.trust(&certificate)).await, refusal);
    // The password would be bound to a certificate that somebody else may present.
    all_refuse(&[world.connect("localhost", "sslmode=require&channel_binding=require").await], refusal);
}

/// An element of DER: its tag, its content, and where it ends.
fn element(der: &[u8]) -> (u8, &[u8], usize) {
    let (head, length) = match der[1] {
        short @ 0..0x80 => (2, usize::from(short)),
        long => {
            let digits = usize::from(long & 0x7f);
            (2 + digits, der[2..2 + digits].iter().fold(0, |length, digit| length << 8 | usize::from(*digit)))
        }
    };
    (der[0], &der[head..head + length], head + length)
}

fn elements(mut der: &[u8]) -> Vec<(u8, &[u8])> {
    let mut all = Vec::new();
    while !der.is_empty() {
        let (tag, _, end) = element(der);
        all.push((tag, &der[..end]));
        der = &der[end..];
    }
    all
}

/// A sequence of these encoded elements.
fn sequence(content: &[u8]) -> Vec<u8> {
    let head = match u16::try_from(content.len()).unwrap().to_be_bytes() {
        [0, short @ 0..0x80] => vec![0x30, short],
        [0, short] => vec![0x30, 0x81, short],
        [high, low] => vec![0x30, 0x82, high, low],
    };
    [&head, content].concat()
}

/// The same certificate without its version, which is then 1, and without extensions, signed again. As PEM.
fn of_version_1(certificate: &[u8], key: &KeyPair) -> String {
    const VERSION: u8 = 0xa0;
    const EXTENSIONS: u8 = 0xa3;
    let (_, parts, _) = element(certificate);
    let [(_, signed), (_, algorithm), _] = elements(parts)[..] else { panic!("a certificate has three parts") };
    let kept = elements(element(signed).1).into_iter().filter(|(tag, _)| ![VERSION, EXTENSIONS].contains(tag));
    let signed = sequence(&kept.flat_map(|(_, whole)| whole.to_vec()).collect::<Vec<u8>>());
    let signature = key.sign(&signed).unwrap();
    let length = u8::try_from(signature.len() + 1).unwrap();
    let signature = [&[0x03, length, 0][..], &signature].concat();
    let text = BASE64_STANDARD.encode(sequence(&[&signed[..], algorithm, &signature].concat()));
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
