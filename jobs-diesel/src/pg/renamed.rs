//! Connections on which the schema `jobs` is called `jobs_bench`.
//!
//! `worker bench` must send the statements that workers send, and must not touch the user's jobs. All our SQL names its
//! schema. So the name is changed in the messages that carry SQL to the server, between the client and the socket. Only
//! the preparation of a statement carries SQL, once per connection. Later messages of a prepared statement are copied
//! unchanged. Ordinary connections use none of this.

mod stream;

use std::time::Duration;

use diesel_async::AsyncPgConnection;
use tokio::net::TcpStream;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::not_connected::{NotConnected, silent};
use stream::{Renaming, RenamingTls, Socket};

pub(crate) use crate::bench::load_test_database::SCHEMA;

/// The schema's name in our SQL.
const ORIGINAL: &str = "jobs";

/// How long a host may take to answer, if the URL sets no limit.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A `tokio_postgres` error, or one of the socket.
type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Opens a connection to the first of the URL's hosts that accepts one.
pub(crate) async fn connect(
    config: &Config,
    tls: Option<&MakeRustlsConnect>,
) -> Result<AsyncPgConnection, NotConnected> {
    let mut problem: Problem = "the URL names no host".into();
    for place in 0..config.get_hosts().len().max(config.get_hostaddrs().len()) {
        let limit = config.get_connect_timeout().copied().unwrap_or(TIMEOUT);
        match tokio::time::timeout(limit, connect_to(config, tls, place)).await {
            Ok(Ok(client)) => return Ok(AsyncPgConnection::try_from(client).await?),
            Ok(Err(error)) => problem = error,
            Err(_) => problem = silent(limit).into(),
        }
    }
    Err(match problem.downcast_ref::<tokio_postgres::Error>() {
        Some(error) => NotConnected::of(error),
        None => NotConnected::because(format!("error connecting to server: {problem}")),
    })
}

/// Encrypts as the `sslmode` of the URL requires. If the server cannot encrypt, connects without encryption if the mode
/// allows that.
async fn connect_to(config: &Config, tls: Option<&MakeRustlsConnect>, place: usize) -> Result<Client, Problem> {
    let name = match config.get_hosts().get(place) {
        Some(Host::Tcp(name)) => Some(name.as_str()),
        Some(_) => None,
        None => Some(""),
    };
    if let (Some(tls), Some(name)) = (tls, name) {
        let mut require = config.clone();
        require.ssl_mode(SslMode::Require);
        let tls = MakeTlsConnect::<Socket>::make_tls_connect(&mut tls.clone(), name)?;
        match require.connect_raw(open(config, place).await?, RenamingTls(tls)).await {
            Ok((client, connection)) => return Ok(drive(client, connection)),
            Err(error) if config.get_ssl_mode() == SslMode::Require || error.as_db_error().is_some() => {
                return Err(error.into());
            }
            Err(_) => {}
        }
    }
    let mut disable = config.clone();
    disable.ssl_mode(SslMode::Disable);
    let (client, connection) = disable.connect_raw(Renaming::new(open(config, place).await?), NoTls).await?;
    Ok(drive(client, connection))
}

async fn open(config: &Config, place: usize) -> std::io::Result<Socket> {
    let ports = config.get_ports();
    let port = ports.get(place).or(ports.first()).copied().unwrap_or(5432);
    let stream = match (config.get_hostaddrs().get(place), config.get_hosts().get(place)) {
        (Some(address), _) => TcpStream::connect((*address, port)).await?,
        (None, Some(Host::Tcp(name))) => TcpStream::connect((name.as_str(), port)).await?,
        #[cfg(unix)]
        (None, Some(Host::Unix(directory))) => {
            let path = directory.join(format!(".s.PGSQL.{port}"));
            return Ok(Socket::new(tokio::net::UnixStream::connect(path).await?));
        }
        (None, _) => return Err(std::io::Error::other("the URL names no host")),
    };
    stream.set_nodelay(true)?;
    Ok(Socket::new(stream))
}

/// Lets the connection run until its client is dropped.
fn drive<S, T>(client: Client, connection: Connection<S, T>) -> Client
where
    Connection<S, T>: Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(target: "diesel_jobs", { %error }, "a connection of the load test ended");
        }
    });
    client
}

/// TLS may be outside or inside of the stream that renames. In both cases messages are renamed before they are
/// encrypted.
impl<T> TlsConnect<Socket> for RenamingTls<T>
where
    T: TlsConnect<Socket>,
    T::Future: Send + 'static,
    T::Stream: Unpin + Send,
{
    type Stream = Renaming<T::Stream>;
    type Error = T::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        let connecting = self.0.connect(stream);
        Box::pin(async move { connecting.await.map(Renaming::new) })
    }
}
