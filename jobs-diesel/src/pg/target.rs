//! What the URL of a database says about new connections: which servers they reach, and how.

use std::time::Duration;

use diesel_jobs_core::storage::StorageResult;
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;

use super::keepalive_of_url::KeepaliveOfUrl;
use super::tls::Tls;
use super::url::Url;
use super::url::role::Role;

/// No `Debug`: it holds the password.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) tls: Option<Tls>,
    /// Which servers of the URL are used.
    pub(super) role: Role,
    /// How long the URL lets each host take.
    pub(super) timeout: Option<Duration>,
    /// Which keepalive settings the URL contains. They override ours.
    pub(super) keepalive: KeepaliveOfUrl,
    /// The names of the URL's parameters and their decoded values, for libpq.
    #[cfg(feature = "postgres-sync")]
    pub(super) parameters: Vec<(String, String)>,
}

impl Target {
    /// Whether the URL leads to a server that takes writes, unless that has changed.
    pub(super) fn expects_primary(&self) -> bool {
        match self.role {
            Role::Unstated | Role::Primary => true,
            Role::Any => self.config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite,
            Role::Standby | Role::PreferStandby => false,
        }
    }

    /// Which database it is, apart from who connects and how.
    pub(super) fn place(&self) -> impl PartialEq {
        let config = &self.config;
        let (hosts, addresses) = (config.get_hosts().to_vec(), config.get_hostaddrs().to_vec());
        (hosts, addresses, config.get_ports().to_vec(), config.get_dbname().map(str::to_owned))
    }

    /// Reads a URL. Its parameters have the same meaning as for libpq. `sslmode=disable` never encrypts. `prefer` (the
    /// default) encrypts if the server can. `require` always encrypts. `verify-ca` and `verify-full` also check the
    /// certificate, against `sslrootcert` (a PEM file) or the system's roots.
    pub(super) fn of_url(url: &str) -> StorageResult<Self> {
        let Url { mut config, parameters, tls, role } = Url::read(url)?;
        if config.get_application_name().is_none() {
            config.application_name("jobs worker");
        }
        let timeout = config.get_connect_timeout().copied();
        if timeout.is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        // Files that cannot be read are an error of the URL, and not of a connection.
        tls.as_ref().map(Tls::connector).transpose()?;
        Ok(Self {
            config,
            tls,
            role,
            timeout,
            keepalive: KeepaliveOfUrl::of(&parameters),
            #[cfg(feature = "postgres-sync")]
            parameters,
        })
    }
}
