//! The hosts of a URL. Each is tried with its share of the time: a host that accepts connections and then is silent
//! must not keep the others from being tried. tokio-postgres limits only the time until a host accepts a connection.

use std::net::IpAddr;
use std::time::Duration;

use diesel::ConnectionError;
use diesel_async::AsyncPgConnection;
use rand::seq::SliceRandom as _;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::not_connected::NotConnected;
use super::url::role::{Role, is_standby};

/// The configurations of the single hosts, in the order in which they are tried.
pub(super) fn each(config: &Config) -> Vec<Config> {
    let lengths = [config.get_hosts().len(), config.get_hostaddrs().len(), config.get_ports().len()];
    let hosts = lengths[0].max(lengths[1]);
    // tokio-postgres refuses lists of different lengths.
    let fits = lengths[..2].iter().all(|length| [0, hosts].contains(length)) && [0, 1, hosts].contains(&lengths[2]);
    if hosts < 2 || !fits {
        return vec![config.clone()];
    }
    let mut each: Vec<Config> = (0..hosts).map(|place| only(config, place)).collect();
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        each.shuffle(&mut rand::rng());
    }
    each
}

/// The same with one configuration for each address of a name, so that each address has its share of the time. A name
/// without an address is left to tokio-postgres, which says why it has none.
pub(super) async fn addresses(hosts: Vec<Config>, limit: Duration) -> Vec<Config> {
    let mut each = Vec::new();
    for host in hosts {
        let found = match (host.get_hosts(), host.get_hostaddrs()) {
            ([Host::Tcp(name)], []) => {
                let port = host.get_ports().first().copied().unwrap_or(5432);
                tokio::time::timeout(limit, tokio::net::lookup_host((name.as_str(), port))).await
            }
            _ => {
                each.push(host);
                continue;
            }
        };
        let mut found: Vec<IpAddr> = found.ok().and_then(Result::ok).into_iter().flatten().map(|at| at.ip()).collect();
        found.dedup();
        if host.get_load_balance_hosts() == LoadBalanceHosts::Random {
            found.shuffle(&mut rand::rng());
        }
        match found.is_empty() {
            true => each.push(host),
            false => each.extend(found.into_iter().map(|address| {
                let mut one = host.clone();
                one.hostaddr(address);
                one
            })),
        }
    }
    each
}

/// The share of each host in the time for all of them. `of_url` is the `connect_timeout` of the URL.
pub(super) fn share(limit: Duration, hosts: usize, of_url: Option<Duration>) -> Duration {
    let share = limit / u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
    of_url.map_or(share, |of_url| share.min(of_url))
}

/// What errors call the host of a configuration with one host.
pub(super) fn name(config: &Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match (config.get_hosts().first(), config.get_hostaddrs().first()) {
        (Some(Host::Tcp(name)), _) => format!("{name}:{port}"),
        #[cfg(unix)]
        (Some(Host::Unix(path)), _) => format!("{}:{port}", path.display()),
        (None, Some(address)) => format!("{address}:{port}"),
        (None, None) => format!("port {port}"),
    }
}

/// A connection that was just opened.
pub(super) struct Opened {
    pub(super) conn: AsyncPgConnection,
    /// Its server is a standby, although the URL does not ask for one. It may have been the primary, and the next
    /// connection may lead to the new one.
    pub(super) is_astray: bool,
}

/// Opens a connection to the one host of the configuration.
pub(super) async fn open(config: &Config, tls: Option<MakeRustlsConnect>, role: Role) -> Result<Opened, NotConnected> {
    let bad = |error| NotConnected::of(&error);
    let (mut conn, says_standby) = match tls {
        Some(tls) => started(config.connect(tls).await.map_err(bad)?).await?,
        None => started(config.connect(NoTls).await.map_err(bad)?).await?,
    };
    let unusable = ConnectionError::CouldntSetupConfiguration;
    if let Some(objection) = role.objection(&mut conn).await.map_err(unusable)? {
        return Err(NotConnected::because(objection.to_owned()));
    }
    // A pooler may say what was true of another server, or once.
    let is_astray = role == Role::Unstated && says_standby && is_standby(&mut conn).await.map_err(unusable)?;
    Ok(Opened { conn, is_astray })
}

/// The connection, and whether its server says that it is a standby. No open session comes to be on a standby later: a
/// primary is restarted for that.
async fn started<T>(
    (client, connection): (Client, Connection<Socket, T>),
) -> Result<(AsyncPgConnection, bool), NotConnected>
where
    T: TlsStream + Unpin + Send + 'static,
{
    let says_standby = connection.parameter("in_hot_standby") == Some("on");
    Ok((AsyncPgConnection::try_from_client_and_connection(client, connection).await?, says_standby))
}

/// The configuration without the other hosts, which no method of [`Config`] can remove.
fn only(config: &Config, place: usize) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(place) {
        Some(Host::Tcp(name)) => {
            one.host(name);
        }
        #[cfg(unix)]
        Some(Host::Unix(path)) => {
            one.host_path(path);
        }
        None => {}
    }
    if let Some(address) = config.get_hostaddrs().get(place) {
        one.hostaddr(*address);
    }
    // One port is the port of all hosts.
    if let Some(port) = config.get_ports().get(place).or(config.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = config.get_connect_timeout() {
        one.connect_timeout(*limit);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_keeps_all_other_settings() {
        let text = "postgres://me:s3cret@a:1,b:2/app?application_name=x&connect_timeout=7&keepalives=0&keepalives_idle=9\
                    &keepalives_interval=8&keepalives_retries=3&tcp_user_timeout=5&target_session_attrs=read-write\
                    &channel_binding=require&options=-c%20jit=off&sslnegotiation=direct&sslmode=require\
                    &load_balance_hosts=random";
        let config: Config = text.parse().unwrap();
        let expected = |place: &str| text.replace("a:1,b:2", place).parse::<Config>().unwrap();
        // They are in any order.
        let found = each(&config);
        assert_eq!(found.len(), 2);
        assert!([expected("a:1"), expected("b:2")].iter().all(|one| found.contains(one)), "{found:?}");
        let one_port: Config = "postgres://a,b:7/app?hostaddr=10.0.0.1,10.0.0.2".parse().unwrap();
        assert_eq!(each(&one_port)[1], "postgres://b:7/app?hostaddr=10.0.0.2".parse().unwrap());
        let random: Config = "postgres://a,b,c/app?load_balance_hosts=random".parse().unwrap();
        assert_eq!(each(&random).len(), 3);
    }

    #[test]
    fn hosts_share_the_time() {
        let seconds = Duration::from_secs;
        assert_eq!(share(seconds(10), 1, None), seconds(10));
        assert_eq!(share(seconds(10), 2, Some(seconds(7))), seconds(5));
        assert_eq!(share(seconds(10), 2, Some(seconds(2))), seconds(2));
    }

    #[tokio::test]
    async fn each_address_of_a_name_is_tried_under_that_name() {
        let (local, limit) = ("postgres://localhost:7/app".parse::<Config>().unwrap(), Duration::from_secs(60));
        let known: Vec<IpAddr> =
            tokio::net::lookup_host("localhost:7").await.unwrap().map(|address| address.ip()).collect();
        let found = addresses_of(&local).await;
        assert!(!found.is_empty() && found.iter().all(|address| known.contains(address)), "{found:?}");
        let each = addresses(vec![local.clone()], limit).await;
        assert!(each.iter().all(|one| one.get_hosts() == local.get_hosts() && name(one) == "localhost:7"));
        // These have an address, or are left to tokio-postgres.
        for text in
            ["postgres:///app?hostaddr=10.0.0.1", "postgres://a/app?hostaddr=10.0.0.1", "postgres:///app?host=/run"]
        {
            let config: Config = text.parse().unwrap();
            assert_eq!(addresses(vec![config.clone()], limit).await, [config]);
        }
        let unknown: Config = "postgres://no-such-name.invalid/app".parse().unwrap();
        assert_eq!(addresses(vec![unknown.clone()], limit).await, [unknown]);
    }

    async fn addresses_of(config: &Config) -> Vec<IpAddr> {
        let each = addresses(vec![config.clone()], Duration::from_secs(60)).await;
        each.iter().flat_map(|one| one.get_hostaddrs().to_vec()).collect()
    }
}
