//! From a URL to a connection, with TLS where the URL asks for it.

use std::time::Duration;

use diesel::result::DatabaseErrorKind;
use diesel::{ConnectionError, ConnectionResult, QueryResult};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::StorageResult;
use tokio_postgres::{CancelToken, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::CHECKOUT_LIMIT;
use super::cause::with_cause;
use super::line_of_url::LineOfUrl;
use super::queries::complete_in;
use super::queries::wake::CHANNEL;
use super::renamed;
use super::sessions::Sessions;
use super::settings::{self, Lease, Told};
use super::tls::connector;
use super::url::Url;

/// What a request to cancel a statement may take: the server answers it only by hanging up.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

/// How to reach one server. No `Debug`: it holds the password.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// Whether the schema `jobs` has another name on its connections.
    renamed: bool,
    /// Set for the worker's own connections: how long one of its statements may take.
    own: Option<Duration>,
    lease: Lease,
    /// Transactions of the worker's own must say what they need.
    explicit: Told,
    /// Of handlers.
    sessions: Sessions,
    /// What the URL says about the line holds.
    line_of_url: LineOfUrl,
    /// The same server in libpq's words, without settings.
    #[cfg(feature = "postgres-sync")]
    libpq: String,
}

impl Connector {
    /// Reads a URL. `sslmode` means what it means to libpq: `disable`, `prefer` (the default) encrypts if the server can,
    /// `require` always does, `verify-ca` and `verify-full` also check the certificate, against `sslrootcert`
    /// (a PEM file) or the system's roots.
    pub(crate) fn from_url(url: &str) -> StorageResult<Self> {
        let Url { mut config, query, mode, verify, roots } = Url::read(url)?;
        #[cfg(feature = "postgres-sync")]
        let libpq = super::libpq::url(&config, query);
        config.ssl_mode(mode);
        if config.get_application_name().is_none() {
            config.application_name("jobs worker");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        let tls = verify.map(|verify| connector(verify, roots.as_deref())).transpose()?;
        Ok(Self {
            config,
            tls,
            renamed: false,
            own: None,
            lease: Lease::default(),
            explicit: Told::default(),
            sessions: Sessions::default(),
            line_of_url: LineOfUrl::of(query),
            #[cfg(feature = "postgres-sync")]
            libpq,
        })
    }

    /// The same server as libpq is told of it: with our settings, and without, for poolers that refuse them.
    #[cfg(feature = "postgres-sync")]
    pub(crate) fn for_libpq(&self) -> [String; 2] {
        [super::libpq::with_line(&self.libpq, &self.config, self.lease.line()), self.libpq.clone()]
    }

    /// The lease of the worker whose connections these are; what is opened from now on notices a dead line within it. `true`:
    /// what was opened before does not.
    pub(crate) fn tell_lease(&self, lease: Duration) -> bool {
        self.lease.tell(lease)
    }

    /// What a transaction of the worker's own must begin with.
    pub(crate) fn explicit(&self) -> &Told {
        &self.explicit
    }

    /// Whether handlers' connections keep what is prepared on them.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// What sessions of the application are called, and what stands before the job's id.
    pub(crate) fn application_name(&self) -> &str {
        self.config.get_application_name().unwrap_or_default()
    }

    /// The same server, where every statement finds the tables of `diesel-jobs` in the schema of `worker bench`.
    pub(crate) fn renamed(mut self) -> Self {
        self.config.application_name(renamed::SCHEMA);
        Self { renamed: true, ..self }
    }

    /// The same server, for the worker's own statements, none of which takes longer than this.
    pub(crate) fn own(&self, limit: Duration) -> Self {
        Self { own: Some(limit), ..self.clone() }
    }

    /// Opens a connection. Its [`settings`] go with it, unless they are refused.
    pub(crate) async fn connect(&self) -> ConnectionResult<AsyncPgConnection> {
        let mut conn = match self.open(&self.with_settings()).await {
            Err(ConnectionError::BadConnection(problem)) if settings::are_refused(&problem) => {
                self.open(&self.config).await?
            }
            answer => answer?,
        };
        let learnt = async {
            match self.own {
                Some(limit) => self.explicit.learn(settings::must_say(&mut conn, limit).await?),
                None if self.sessions.are_kept() => {
                    self.sessions.are_prepared(conn.batch_execute(&complete_in::prepare()).await)?;
                }
                None => {}
            }
            QueryResult::Ok(())
        };
        let learnt = tokio::time::timeout(CHECKOUT_LIMIT, learnt).await.unwrap_or_else(|_| Err(silent()));
        learnt.map_err(ConnectionError::CouldntSetupConfiguration)?;
        Ok(conn)
    }

    /// What the URL says holds, except for what the worker's statements cannot do without: options that come later win.
    fn with_settings(&self) -> Config {
        let (line, said) = (self.lease.line(), self.line_of_url);
        let mut config = self.config.clone();
        let mut options = vec![line.options()];
        options.extend(self.own.map(settings::speed));
        options.extend(self.config.get_options().map(str::to_owned));
        options.extend(self.own.map(settings::pinned));
        config.options(options.join(" "));
        said.add_to(&mut config, line);
        config
    }

    async fn open(&self, config: &Config) -> ConnectionResult<AsyncPgConnection> {
        if self.renamed {
            return renamed::connect(config, self.tls.as_ref()).await;
        }
        self.open_plain(config).await
    }

    /// The channel on which this connector's workers are woken.
    pub(crate) fn channel(&self) -> &'static str {
        if self.renamed { renamed::SCHEMA } else { CHANNEL }
    }

    /// Opens a connection that hears notifications. Its statements reach the server as they are written.
    pub(crate) async fn connect_to_listen(&self) -> ConnectionResult<AsyncPgConnection> {
        match self.open_plain(&self.with_settings()).await {
            Err(ConnectionError::BadConnection(problem)) if settings::are_refused(&problem) => {
                self.open_plain(&self.config).await
            }
            answer => answer,
        }
    }

    /// With a limit of its own: that of the URL ends with the handshake of TCP, and a server may say nothing after it.
    async fn open_plain(&self, config: &Config) -> ConnectionResult<AsyncPgConnection> {
        let opened = tokio::time::timeout(CHECKOUT_LIMIT, self.establish(config)).await;
        opened.unwrap_or_else(|_| Err(ConnectionError::BadConnection(SILENT.to_owned())))
    }

    async fn establish(&self, config: &Config) -> ConnectionResult<AsyncPgConnection> {
        let bad = |error: tokio_postgres::Error| ConnectionError::BadConnection(with_cause(&error));
        match &self.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await.map_err(bad)?;
                AsyncPgConnection::try_from_client_and_connection(client, connection).await
            }
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(bad)?;
                AsyncPgConnection::try_from_client_and_connection(client, connection).await
            }
        }
    }

    /// Asks the server to stop what a connection is doing. Best effort: the answer tells nothing.
    pub(crate) async fn cancel(&self, token: CancelToken) {
        let cancelled = async {
            match &self.tls {
                Some(tls) => token.cancel_query(tls.clone()).await,
                None => token.cancel_query(NoTls).await,
            }
        };
        match tokio::time::timeout(CANCEL_LIMIT, cancelled).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(target: "diesel_jobs", { %error }, "could not ask the server to cancel a statement")
            }
            Err(_) => {
                tracing::debug!(target: "diesel_jobs", "the server did not take the request to cancel a statement")
            }
        }
    }
}

/// What is said when [`CHECKOUT_LIMIT`] is over.
const SILENT: &str = "the server did not answer within 10 s";

fn silent() -> diesel::result::Error {
    diesel::result::Error::DatabaseError(DatabaseErrorKind::UnableToSendCommand, Box::new(SILENT.to_owned()))
}
