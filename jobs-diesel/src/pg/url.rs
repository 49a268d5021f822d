//! Reads what a URL says, before our own settings are added.

mod environment;
mod parameters;
pub(super) mod role;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod tls_parameters;
mod value;

use std::net::Ipv6Addr;
use std::path::Path;
use std::str::FromStr;

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host};

use self::environment::Variable;
use self::parameters::Parameters;
use self::role::Role;
use super::tls::Tls;
use crate::url_source::percent_decoded;

/// The directories of the server's socket: that of Debian and Red Hat, and that of a server that is built from source.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

pub(super) struct Url {
    pub(super) config: Config,
    /// The names of the parameters and their decoded values.
    pub(super) parameters: Vec<(String, String)>,
    /// `None` if nothing is encrypted.
    pub(super) tls: Option<Tls>,
    pub(super) role: Role,
}

impl Url {
    /// Each parameter has the same meaning as for libpq, and so has the environment.
    pub(super) fn read(url: &str) -> StorageResult<Self> {
        Self::read_in(url, &|name| std::env::var_os(name))
    }

    fn read_in(url: &str, variable: Variable<'_>) -> StorageResult<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let base = &environment::with_port(base, variable).map_err(StorageError::Config)?;
        // The parser's message may repeat a part of the URL, which may hold the password.
        let mut config = Config::from_str(base).map_err(|_| not_a_url())?;
        let mut parameters = Parameters::default();
        // If the `?` belongs to a password, what follows is the rest of the password, and must not be repeated.
        let refused = |problem: String| match query.contains('@') {
            true => not_a_url(),
            false => StorageError::Config(format!("the database URL has {problem}")),
        };
        // Another line, URL or parameter in the place of the name may contain a password, and the server repeats names.
        let rest = base.split_once("://").map_or("", |(_, rest)| rest);
        let place = rest.split_once('@').map_or(rest, |(_, place)| place);
        let name = place.split_once('/').map_or("", |(_, name)| name);
        let names = query.split('&').filter_map(|pair| pair.strip_prefix("dbname=")).chain([name]);
        if url.contains(char::is_control) || names.into_iter().any(is_more_than_a_name) {
            return Err(refused(
                "a name of the database with a blank, a line end or one of & ; , : = ' \": parameters begin with `?`, a file has one URL, \
                 and such characters of a name are percent-encoded, a blank as %20"
                    .to_owned(),
            ));
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decoded(value);
            parameters.take(&mut config, &percent_decoded(name), value).map_err(refused)?;
        }
        // The parser ends the password at its first `@`. Or the characters that separate the parts are percent-encoded.
        if config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(name) if is_more_than_a_host(name)))
            || config.get_user().is_some_and(|user| user.contains(':'))
            || config.get_dbname().is_some_and(holds_other_parts)
        {
            return Err(not_a_url());
        }
        if config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(name) if name.is_empty())) {
            return Err(refused(format!(
                "a host without a name; write it, or the directory of the socket: host={}",
                SOCKETS[0]
            )));
        }
        let in_url = parameters.all.len();
        environment::complete(&mut parameters, &mut config, variable).map_err(StorageError::Config)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host_path(SOCKETS.into_iter().find(|path| Path::new(path).is_dir()).unwrap_or(SOCKETS[0]));
        }
        config.ssl_mode(parameters.tls.encryption());
        let binds = config.get_channel_binding() == ChannelBinding::Require;
        let is_of_tls = |(name, _): &(String, String)| name.starts_with("ssl") || name == "channel_binding";
        let tls =
            parameters.tls.read(binds).map_err(|problem| match parameters.all[in_url..].iter().any(is_of_tls) {
                true => StorageError::Config(format!(
                    "the database URL, completed by libpq's environment variables, has {problem}"
                )),
                false => refused(problem.to_owned()),
            })?;
        let several = config.get_hosts().len().max(config.get_hostaddrs().len()) > 1;
        // The first host may have become a standby. A worker must find the other one without being told.
        let role = parameters.role.unwrap_or(if several { Role::Primary } else { Role::Unstated });
        Ok(Self { config, parameters: parameters.all, tls, role })
    }
}

/// Whether this text in the place of a database's name has characters that should be percent-encoded in it.
fn is_more_than_a_name(text: &str) -> bool {
    text.contains(|c: char| c.is_whitespace() || "&;,:='\"".contains(c))
}

/// Whether this has characters that no name of a host and no address has.
fn is_more_than_a_host(name: &str) -> bool {
    let is_address = || name.split('%').next().unwrap_or(name).parse::<Ipv6Addr>().is_ok();
    name.contains('@') || name.contains(':') && !is_address()
}

/// Whether the name of a database, decoded, has other parts of a URL, and perhaps a password.
fn holds_other_parts(name: &str) -> bool {
    name.contains("://") || name.contains("password=")
}

/// The error repeats no part of the URL, because it is unknown where the password was meant to end.
fn not_a_url() -> StorageError {
    StorageError::Config(
        "the database URL is not a valid PostgreSQL URL; write postgres://user:password@host:5432/database, with special \
         characters of the password percent-encoded: `@` as %40, `:` as %3A, `/` as %2F, `?` as %3F, `#` as %23 and `%` as %25"
            .to_owned(),
    )
}
