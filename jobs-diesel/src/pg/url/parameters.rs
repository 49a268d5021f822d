//! The parameters of a database URL have the names, units and values of libpq. Each is either honoured, or refused by
//! its name with what to write instead.

use std::time::Duration;

use diesel_jobs_core::__private::nearest;
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, LoadBalanceHosts, TargetSessionAttrs};

use super::role::Role;
use super::tls_parameters::TlsParameters;
use super::value::{Allowed, one_of, read, seconds};

/// The parameters that are honoured.
const KNOWN: [&str; 29] = [
    "user",
    "password",
    "dbname",
    "host",
    "hostaddr",
    "port",
    "options",
    "application_name",
    "fallback_application_name",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "target_session_attrs",
    "load_balance_hosts",
    "channel_binding",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslcertmode",
    "sslsni",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "client_encoding",
    "gssencmode",
];

/// Parameters of libpq and of other clients that are not honoured, and what to do instead.
const REFUSED: [(&str, &str); 33] = [
    ("keepalives_retries", "write keepalives_count"),
    ("ssl", "write sslmode=require or sslmode=verify-full"),
    ("requiressl", "write sslmode=require"),
    ("passfile", "write the password into the URL"),
    ("service", "write what the service stands for"),
    ("servicefile", "write what the service stands for"),
    ("sslpassword", "store the key without a password, in a file that only its user can read"),
    ("sslcrl", "leave it out: lists of revoked certificates are not read"),
    ("sslcrldir", "leave it out: lists of revoked certificates are not read"),
    ("sslcompression", "leave it out: nothing is compressed"),
    ("sslkeylogfile", "leave it out"),
    (
        "require_auth",
        "write channel_binding=require or sslmode=verify-full, so that no other server learns the password",
    ),
    ("requirepeer", "leave it out"),
    ("krbsrvname", "use a password or a client certificate"),
    ("gsslib", "use a password or a client certificate"),
    ("gssdelegation", "use a password or a client certificate"),
    ("oauth_issuer", "use a password or a client certificate"),
    ("oauth_client_id", "use a password or a client certificate"),
    ("oauth_client_secret", "use a password or a client certificate"),
    ("oauth_scope", "use a password or a client certificate"),
    ("oauth_ca_file", "use a password or a client certificate"),
    ("authtype", "leave it out: the server says how users log in"),
    ("tty", "leave it out: no server reads it"),
    ("replication", "leave it out: jobs need an ordinary session"),
    ("scram_client_key", "use a password or a client certificate"),
    ("scram_server_key", "use a password or a client certificate"),
    ("min_protocol_version", "leave it out: protocol 3.0 is used"),
    ("max_protocol_version", "leave it out: protocol 3.0 is used"),
    ("schema", "leave it out: the tables of jobs are in the schema jobs"),
    ("currentSchema", "write options=-csearch_path%3Dapp"),
    ("search_path", "write options=-csearch_path%3Dapp"),
    ("statement_timeout", "write options=-cstatement_timeout%3D30s"),
    ("pgbouncer", "leave it out: a pooler is recognized by what it refuses"),
];

/// What the parameters of a URL say.
#[derive(Default)]
pub(super) struct Parameters {
    /// The names and the decoded values.
    pub(super) all: Vec<(String, String)>,
    pub(super) role: Option<Role>,
    pub(super) tls: TlsParameters,
}

impl Parameters {
    /// Takes a parameter. The error says what is wrong with it.
    pub(super) fn take(&mut self, config: &mut Config, name: &str, value: String) -> Result<(), String> {
        if !KNOWN.contains(&name) {
            return Err(unknown(name));
        }
        self.set(config, name, &value).map_err(|allowed| format!("{name}={}; {allowed}", value.escape_debug()))?;
        // As for libpq, the last value counts.
        self.all.retain(|(of, _)| of != name);
        self.all.push((name.to_owned(), value));
        Ok(())
    }

    fn set(&mut self, config: &mut Config, name: &str, value: &str) -> Result<(), Allowed> {
        match name {
            "user" => {
                config.user(value);
            }
            "password" => {
                config.password(value);
            }
            "dbname" => {
                config.dbname(value);
            }
            "host" if config.get_hosts().is_empty() => {
                for host in value.split(',') {
                    config.host(host);
                }
            }
            "host" => return Err("the URL names a host already; write it once"),
            "hostaddr" if !config.get_hostaddrs().is_empty() => {
                return Err("the URL has this parameter twice; write it once");
            }
            "hostaddr" => {
                for address in value.split(',') {
                    config.hostaddr(read(address, "write IP addresses, such as hostaddr=10.0.0.1,10.0.0.2")?);
                }
            }
            "port" if config.get_ports().is_empty() => {
                for port in value.split(',') {
                    let allowed = "write numbers from 1 to 65535, such as port=5432";
                    config.port(read(port, allowed).and_then(|port| if port > 0 { Ok(port) } else { Err(allowed) })?);
                }
            }
            "port" => {
                return Err("the URL names a port already, or a host before its `/`; write the port there");
            }
            "options" => {
                config.options(value);
            }
            "application_name" => {
                config.application_name(value);
            }
            "fallback_application_name" if config.get_application_name().is_none() => {
                config.application_name(value);
            }
            "fallback_application_name" => {}
            "connect_timeout" => match read(value, "write whole seconds, such as connect_timeout=10")? {
                // As for libpq, this is no limit. Ours remains.
                0_u32 => {}
                seconds => {
                    config.connect_timeout(Duration::from_secs(seconds.into()));
                }
            },
            "tcp_user_timeout" => {
                let milliseconds: u32 = read(value, "write whole milliseconds, such as tcp_user_timeout=20000")?;
                config.tcp_user_timeout(Duration::from_millis(milliseconds.into()));
            }
            "keepalives" => {
                config.keepalives(one_of(value, [("1", true), ("0", false)], "write 1 or 0")?);
            }
            "keepalives_idle" => {
                if let Some(time) = seconds(value, "write whole seconds, such as keepalives_idle=30")? {
                    config.keepalives_idle(time);
                }
            }
            "keepalives_interval" => {
                if let Some(time) = seconds(value, "write whole seconds, such as keepalives_interval=5")? {
                    config.keepalives_interval(time);
                }
            }
            "keepalives_count" => {
                config.keepalives_retries(read(value, "write a whole number, such as keepalives_count=3")?);
            }
            "target_session_attrs" => self.set_role(config, value)?,
            "load_balance_hosts" => {
                let random = [("random", LoadBalanceHosts::Random), ("disable", LoadBalanceHosts::Disable)];
                config.load_balance_hosts(one_of(value, random, "write random or disable")?);
            }
            "channel_binding" => {
                let values = [
                    ("prefer", ChannelBinding::Prefer),
                    ("require", ChannelBinding::Require),
                    ("disable", ChannelBinding::Disable),
                ];
                config.channel_binding(one_of(value, values, "write prefer, require or disable")?);
            }
            "client_encoding" => {
                let values = ["UTF8", "UTF-8", "utf8", "utf-8", "auto"].map(|name| (name, ()));
                one_of(value, values, "write UTF8, which is used in any case")?;
            }
            "gssencmode" => {
                one_of(value, [("disable", ()), ("prefer", ())], "write disable: encryption is TLS, see sslmode")?;
            }
            _ => self.tls.set(config, name, value)?,
        }
        Ok(())
    }

    fn set_role(&mut self, config: &mut Config, value: &str) -> Result<(), Allowed> {
        let (attrs, role) = one_of(
            value,
            [
                ("any", (TargetSessionAttrs::Any, Role::Any)),
                ("read-write", (TargetSessionAttrs::ReadWrite, Role::Any)),
                ("read-only", (TargetSessionAttrs::ReadOnly, Role::Any)),
                ("primary", (TargetSessionAttrs::Any, Role::Primary)),
                ("standby", (TargetSessionAttrs::Any, Role::Standby)),
                ("prefer-standby", (TargetSessionAttrs::Any, Role::PreferStandby)),
            ],
            "write any, read-write, read-only, primary, standby or prefer-standby; a worker needs primary or read-write",
        )?;
        config.target_session_attrs(attrs);
        self.role = Some(role);
        Ok(())
    }
}

fn unknown(name: &str) -> String {
    if let Some((_, instead)) = REFUSED.iter().find(|(of, _)| *of == name) {
        return format!("the parameter {name}, which is not supported here; {instead}");
    }
    match nearest(name, KNOWN) {
        Some(near) => format!("the unknown parameter {name:?}; did you mean {near}?"),
        None => format!("the unknown parameter {name:?}; it may have {}", KNOWN.join(", ")),
    }
}
