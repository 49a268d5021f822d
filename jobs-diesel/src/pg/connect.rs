//! Opens connections from a URL, with TLS if the URL asks for it.

use std::sync::Arc;
use std::time::Duration;

use diesel::result::DatabaseErrorKind;
use diesel::{ConnectionError, QueryResult};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::StorageResult;
use futures_util::future::try_join;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::CHECKOUT_LIMIT;
use super::hosts::{self, Opened};
use super::language;
use super::not_connected::{NotConnected, silent};
use super::queries::complete_in;
use super::queries::wake::CHANNEL;
use super::renamed;
use super::rotation::{LIFETIME, Pooled, Rotation};
use super::sessions::Sessions;
use super::settings::{self, Fact, LeaseTime};
use super::source::Source;
use super::target::Target;
use super::tls::Tls;
use crate::stopwatch::Stopwatch;
use crate::url_source::UrlSource;

/// Is added to the problems if no server has answered. One that has answered says itself what is wrong.
pub(super) const NO_ANSWER: &str = "; check that the server is up, and that the host and the port of the URL are right";

/// How to reach one server. No `Debug`: it holds the password.
#[derive(Clone)]
pub(crate) struct Connector {
    source: Arc<Source>,
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
}

impl Connector {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source: Arc::new(source),
            renamed: false,
            own: None,
            lease: LeaseTime::default(),
            stopwatch: Stopwatch::Runs,
            explicit: Fact::default(),
            sessions: Sessions::default(),
            rotation: Rotation::new(LIFETIME),
        }
    }

    /// Connects with this URL, which does not change.
    pub(crate) fn from_url(url: &str) -> StorageResult<Self> {
        Ok(Self::new(Source::new(UrlSource::Text(url.to_owned()), None)?))
    }

    /// What a new connection needs.
    async fn target(&self) -> Result<Target, NotConnected> {
        let target = self.source.current(self.stopwatch.limit(CHECKOUT_LIMIT)).await;
        self.rotation.follow(self.source.moves());
        target.map(|target| self.named(target)).map_err(NotConnected::because)
    }

    fn named(&self, mut target: Target) -> Target {
        if self.renamed {
            target.config.application_name(renamed::SCHEMA);
        }
        target
    }

    /// The URLs of the server for libpq: with our settings, and without them for poolers that refuse them. May block.
    #[cfg(feature = "postgres-sync")]
    pub(crate) fn for_libpq(&self) -> Result<[String; 2], String> {
        let Target { config, parameters, role, timeout, .. } = self.source.current_blocking()?;
        self.rotation.follow(self.source.moves());
        let without = super::libpq::url(&config, &parameters, role);
        let each_host = hosts::share(CHECKOUT_LIMIT, hosts::each(&config).len(), timeout);
        Ok([super::libpq::with_keepalive(&without, &config, self.lease.keepalive(), each_host), without])
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

    /// Whether a server that is a standby is not the one that the URL means.
    pub(super) fn expects_primary(&self) -> bool {
        self.source.last().expects_primary()
    }

    /// The application name of our sessions. In a transaction of a handler, the job's id follows it.
    pub(crate) fn application_name(&self) -> String {
        self.named(self.source.last()).config.get_application_name().unwrap_or_default().to_owned()
    }

    /// The same server, but every statement finds the tables of `diesel-jobs` in the schema of `worker bench`.
    pub(crate) fn renamed(self) -> Self {
        Self { renamed: true, ..self }
    }

    /// The same server, and work on it is measured with this.
    pub(crate) fn timed_by(self, stopwatch: Stopwatch) -> Self {
        Self { stopwatch, ..self }
    }

    /// The same server, and connections of its pools reach this age.
    pub(crate) fn living_for(self, lifetime: Duration) -> Self {
        Self { rotation: Rotation::new(lifetime), ..self }
    }

    /// The same server, for the worker's own statements. Each has this time limit.
    pub(crate) fn own(&self, limit: Duration) -> Self {
        Self { own: Some(limit), ..self.clone() }
    }

    /// Opens a connection with its [`settings`]. If the settings are refused, opens it without them.
    pub(crate) async fn connect(&self) -> Result<AsyncPgConnection, NotConnected> {
        self.connect_once().await.map(|opened| opened.conn)
    }

    /// The same for a connection that is used again, unless it has led astray.
    pub(super) async fn connect_pooled(&self) -> Result<Pooled<AsyncPgConnection>, NotConnected> {
        let generation = self.rotation.generation();
        let Opened { conn, is_astray } = self.connect_once().await?;
        let mut pooled = self.rotation.opened(conn, generation);
        if is_astray {
            pooled.abandon();
        }
        Ok(pooled)
    }

    async fn connect_once(&self) -> Result<Opened, NotConnected> {
        let target = self.target().await?;
        let mut opened = match self.open(&self.with_settings(&target)).await {
            Err(NotConnected::Settings(_)) => self.open(&target).await?,
            answer => answer?,
        };
        let conn = &mut opened.conn;
        let learnt = async {
            match self.own {
                Some(limit) => {
                    // Both are sent in one round trip.
                    let (conn, speak) = (&*conn, language::of_own_session());
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
                // Other clients use the session, too, so its language stays.
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
        Ok(opened)
    }

    /// The URL's options override ours, except for those that the worker's statements need: a later option wins.
    fn with_settings(&self, target: &Target) -> Target {
        let (keepalive, mut target) = (self.lease.keepalive(), target.clone());
        let config = &mut target.config;
        let mut options = vec![keepalive.options()];
        options.extend(self.own.map(settings::speed));
        options.extend(config.get_options().map(str::to_owned));
        options.extend(self.own.map(settings::pinned));
        config.options(options.join(" "));
        target.keepalive.add_to(config, keepalive);
        target
    }

    async fn open(&self, target: &Target) -> Result<Opened, NotConnected> {
        if self.renamed {
            let conn = renamed::connect(&target.config, encryption(target)?.as_ref()).await?;
            return Ok(Opened { conn, is_astray: false });
        }
        self.open_plain(target).await
    }

    /// The notification channel that wakes this connector's workers.
    pub(crate) fn channel(&self) -> &'static str {
        if self.renamed { renamed::SCHEMA } else { CHANNEL }
    }

    /// Opens a connection that receives notifications. The schema in its statements is not renamed.
    pub(crate) async fn connect_to_listen(&self) -> Result<AsyncPgConnection, NotConnected> {
        let target = self.target().await?;
        let opened = match self.open_plain(&self.with_settings(&target)).await {
            Err(NotConnected::Settings(_)) => self.open_plain(&target).await,
            answer => answer,
        };
        opened.map(|opened| opened.conn)
    }

    /// Tries the hosts one after the other, each with its share of the time.
    async fn open_plain(&self, target: &Target) -> Result<Opened, NotConnected> {
        let limit = self.stopwatch.limit(CHECKOUT_LIMIT);
        let hosts = hosts::each(&target.config);
        let named = hosts.len() > 1;
        let hosts = hosts::addresses(hosts, hosts::share(limit, 1, target.timeout)).await;
        let rounds = target.role.rounds();
        let share = hosts::share(limit, hosts.len() * rounds.len(), target.timeout);
        // Makes the error of the problems of all hosts.
        let (mut problems, mut refused) = (Vec::new(), NotConnected::because as fn(String) -> NotConnected);
        let mut is_answered = false;
        for role in rounds {
            for host in &hosts {
                let tried = tokio::time::timeout(share, hosts::open(host, encryption(target)?, *role)).await;
                is_answered |= !matches!(tried, Err(_) | Ok(Err(NotConnected::NoAnswer(_))));
                let problem = match tried {
                    Ok(Ok(opened)) => return Ok(opened),
                    Ok(Err(NotConnected::NoAnswer(problem))) => problem,
                    Ok(Err(NotConnected::Credentials(problem))) => {
                        refused = NotConnected::Credentials;
                        problem
                    }
                    Ok(Err(NotConnected::Settings(problem))) => {
                        refused = NotConnected::Settings;
                        problem
                    }
                    Ok(Err(NotConnected::TooMany(problem))) => {
                        self.rotation.connections_are_short();
                        problem
                    }
                    Ok(Err(NotConnected::Other(ConnectionError::BadConnection(problem)))) => problem,
                    Ok(Err(other)) => return Err(other),
                    Err(_) => silent(share),
                };
                problems.push(if named { format!("{}: {problem}", hosts::name(host)) } else { problem });
            }
        }
        // The addresses of one name often have the same problem.
        problems.dedup();
        let advice = if is_answered { "" } else { NO_ANSWER };
        Err(refused(problems.join("; ") + advice))
    }

    /// How the last connection was encrypted.
    pub(super) fn last_encryption(&self) -> Result<Option<MakeRustlsConnect>, NotConnected> {
        encryption(&self.source.last())
    }
}

/// How a new connection is encrypted, with certificates as they are now.
fn encryption(target: &Target) -> Result<Option<MakeRustlsConnect>, NotConnected> {
    target.tls.as_ref().map(Tls::connector).transpose().map_err(|problem| NotConnected::because(problem.to_string()))
}
