//! Opens connections from a URL, with TLS if the URL asks for it.

use std::time::Duration;

use diesel::result::DatabaseErrorKind;
use diesel::{ConnectionError, ConnectionResult, QueryResult};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;
use futures_util::future::try_join;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::CHECKOUT_LIMIT;
use super::cause::with_cause;
use super::hosts;
use super::keepalive_of_url::KeepaliveOfUrl;
use super::language;
use super::queries::complete_in;
use super::queries::wake::CHANNEL;
use super::renamed;
use super::rotation::{LIFETIME, Rotation};
use super::sessions::Sessions;
use super::settings::{self, Fact, LeaseTime};
use super::tls::Tls;
use super::url::Url;
use super::url::role::Role;
use crate::stopwatch::Stopwatch;

/// How to reach one server. No `Debug`: it holds the password.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: Option<Tls>,
    /// Which servers of the URL are used.
    role: Role,
    /// Whether its connections use another name for the schema `jobs`.
    renamed: bool,
    /// For the worker's own connections: the time limit of one of its statements.
    own: Option<Duration>,
    lease: LeaseTime,
    stopwatch: Stopwatch,
    /// Whether the worker's own transactions must set what they need.
    explicit: Fact,
    /// The sessions of handlers' connections.
    sessions: Sessions,
    /// When a connection of a pool is used no longer.
    rotation: Rotation,
    /// How long the URL lets each host take.
    timeout_of_url: Option<Duration>,
    /// Which keepalive settings the URL contains. They override ours.
    keepalive_of_url: KeepaliveOfUrl,
    /// The URL of the same server for libpq, without our settings.
    #[cfg(feature = "postgres-sync")]
    libpq: String,
}

impl Connector {
    /// Reads a URL. Its parameters have the same meaning as for libpq.
    pub(crate) fn from_url(url: &str) -> StorageResult<Self> {
        let Url { mut config, parameters, tls, role } = Url::read(url)?;
        #[cfg(feature = "postgres-sync")]
        let libpq = super::libpq::url(&config, &parameters, role);
        if config.get_application_name().is_none() {
            config.application_name("jobs worker");
        }
        let timeout_of_url = config.get_connect_timeout().copied();
        if timeout_of_url.is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        // Files that cannot be read are an error of the URL, and not of a connection.
        tls.as_ref().map(Tls::connector).transpose()?;
        Ok(Self {
            config,
            tls,
            role,
            renamed: false,
            own: None,
            lease: LeaseTime::default(),
            stopwatch: Stopwatch::Runs,
            explicit: Fact::default(),
            sessions: Sessions::default(),
            rotation: Rotation::new(LIFETIME),
            timeout_of_url,
            keepalive_of_url: KeepaliveOfUrl::of(&parameters),
            #[cfg(feature = "postgres-sync")]
            libpq,
        })
    }

    /// The URLs of the same server for libpq: with our settings, and without them for poolers that refuse them.
    #[cfg(feature = "postgres-sync")]
    pub(crate) fn for_libpq(&self) -> [String; 2] {
        let each_host = hosts::share(CHECKOUT_LIMIT, hosts::each(&self.config).len(), self.timeout_of_url);
        let with_settings = super::libpq::with_keepalive(&self.libpq, &self.config, self.lease.keepalive(), each_host);
        [with_settings, self.libpq.clone()]
    }

    /// Sets the lease of the worker that uses these connections. Connections that are opened from now on notice a dead
    /// peer within the lease. Returns `true` if connections that were opened before do not.
    pub(crate) fn set_lease(&self, lease: Duration) -> bool {
        self.lease.set(lease)
    }

    /// Measures the work on these connections.
    pub(crate) fn stopwatch(&self) -> Stopwatch {
        self.stopwatch
    }

    /// Whether the worker's own transactions must set what they need.
    pub(crate) fn explicit(&self) -> &Fact {
        &self.explicit
    }

    /// Whether the sessions of handlers' connections keep prepared statements.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// When a connection of a pool is used no longer.
    pub(crate) fn rotation(&self) -> &Rotation {
        &self.rotation
    }

    /// The application name of our sessions. In a transaction of a handler, the job's id follows it.
    pub(crate) fn application_name(&self) -> &str {
        self.config.get_application_name().unwrap_or_default()
    }

    /// The same server, but every statement finds the tables of `diesel-jobs` in the schema of `worker bench`.
    pub(crate) fn renamed(mut self) -> Self {
        self.config.application_name(renamed::SCHEMA);
        Self { renamed: true, ..self }
    }

    /// The same server, and work on it is measured with this.
    pub(crate) fn timed_by(self, stopwatch: Stopwatch) -> Self {
        Self { stopwatch, ..self }
    }

    /// The same server, and connections of its pools reach this age.
    #[cfg(test)]
    pub(crate) fn living_for(self, lifetime: Duration) -> Self {
        Self { rotation: Rotation::new(lifetime), ..self }
    }

    /// The same server, for the worker's own statements. Each has this time limit.
    pub(crate) fn own(&self, limit: Duration) -> Self {
        Self { own: Some(limit), ..self.clone() }
    }

    /// Opens a connection with its [`settings`]. If the settings are refused, opens it without them.
    pub(crate) async fn connect(&self) -> ConnectionResult<AsyncPgConnection> {
        let mut conn = match self.open(&self.with_settings()).await {
            Err(ConnectionError::BadConnection(problem)) if settings::are_refused(&problem) => {
                self.open(&self.config).await?
            }
            answer => answer?,
        };
        let learnt = async {
            match self.own {
                Some(limit) => {
                    // Both are sent in one round trip.
                    let (conn, speak) = (&conn, language::of_own_session());
                    let ((), must_set) = try_join(
                        async move { (&mut { conn }).batch_execute(&speak).await },
                        settings::must_set(conn, limit),
                    )
                    .await?;
                    self.explicit.learn(must_set);
                }
                None if self.sessions.are_kept() => {
                    let prepare = language::of_kept_session() + &complete_in::prepare();
                    self.sessions.are_prepared(conn.batch_execute(&prepare).await)?;
                }
                None => {}
            }
            QueryResult::Ok(())
        };
        let limit = self.stopwatch.limit(CHECKOUT_LIMIT);
        let learnt = tokio::time::timeout(limit, learnt).await.unwrap_or_else(|_| {
            let kind = DatabaseErrorKind::UnableToSendCommand;
            Err(diesel::result::Error::DatabaseError(kind, Box::new(silent(limit))))
        });
        learnt.map_err(ConnectionError::CouldntSetupConfiguration)?;
        Ok(conn)
    }

    /// The URL's options override ours, except for those that the worker's statements need: a later option wins.
    fn with_settings(&self) -> Config {
        let (keepalive, of_url) = (self.lease.keepalive(), self.keepalive_of_url);
        let mut config = self.config.clone();
        let mut options = vec![keepalive.options()];
        options.extend(self.own.map(settings::speed));
        options.extend(self.config.get_options().map(str::to_owned));
        options.extend(self.own.map(settings::pinned));
        config.options(options.join(" "));
        of_url.add_to(&mut config, keepalive);
        config
    }

    async fn open(&self, config: &Config) -> ConnectionResult<AsyncPgConnection> {
        if self.renamed {
            return renamed::connect(config, self.encryption()?.as_ref()).await;
        }
        self.open_plain(config).await
    }

    /// The notification channel that wakes this connector's workers.
    pub(crate) fn channel(&self) -> &'static str {
        if self.renamed { renamed::SCHEMA } else { CHANNEL }
    }

    /// Opens a connection that receives notifications. The schema in its statements is not renamed.
    pub(crate) async fn connect_to_listen(&self) -> ConnectionResult<AsyncPgConnection> {
        match self.open_plain(&self.with_settings()).await {
            Err(ConnectionError::BadConnection(problem)) if settings::are_refused(&problem) => {
                self.open_plain(&self.config).await
            }
            answer => answer,
        }
    }

    /// Tries the hosts one after the other, each with its share of the time.
    async fn open_plain(&self, config: &Config) -> ConnectionResult<AsyncPgConnection> {
        let limit = self.stopwatch.limit(CHECKOUT_LIMIT);
        let hosts = hosts::each(config);
        let named = hosts.len() > 1;
        let hosts = hosts::addresses(hosts, hosts::share(limit, 1, self.timeout_of_url)).await;
        let rounds = self.role.rounds();
        let share = hosts::share(limit, hosts.len() * rounds.len(), self.timeout_of_url);
        let mut problems = Vec::new();
        for role in rounds {
            for host in &hosts {
                let problem = match tokio::time::timeout(share, self.establish(host, *role)).await {
                    Ok(Ok(conn)) => return Ok(conn),
                    Ok(Err(ConnectionError::BadConnection(problem))) => problem,
                    Ok(Err(other)) => return Err(other),
                    Err(_) => silent(share),
                };
                problems.push(if named { format!("{}: {problem}", hosts::name(host)) } else { problem });
            }
        }
        // The addresses of one name often have the same problem.
        problems.dedup();
        Err(ConnectionError::BadConnection(problems.join("; ")))
    }

    /// Opens a connection to the one host of the configuration.
    async fn establish(&self, config: &Config, role: Role) -> ConnectionResult<AsyncPgConnection> {
        let bad = |error: tokio_postgres::Error| ConnectionError::BadConnection(with_cause(&error));
        let mut conn = match self.encryption()? {
            Some(tls) => {
                let (client, connection) = config.connect(tls).await.map_err(bad)?;
                AsyncPgConnection::try_from_client_and_connection(client, connection).await?
            }
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(bad)?;
                AsyncPgConnection::try_from_client_and_connection(client, connection).await?
            }
        };
        match role.objection(&mut conn).await.map_err(ConnectionError::CouldntSetupConfiguration)? {
            Some(objection) => Err(ConnectionError::BadConnection(objection.to_owned())),
            None => Ok(conn),
        }
    }

    /// How a new connection is encrypted, with certificates as they are now.
    pub(super) fn encryption(&self) -> ConnectionResult<Option<MakeRustlsConnect>> {
        let bad = |problem: StorageError| ConnectionError::BadConnection(problem.to_string());
        self.tls.as_ref().map(Tls::connector).transpose().map_err(bad)
    }
}

/// The error text when this time is over.
fn silent(limit: Duration) -> String {
    format!("the server did not answer within {} s", limit.as_secs())
}
