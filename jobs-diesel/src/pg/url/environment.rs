//! The variables that libpq reads for what a URL leaves open. Applications that connect through `PgConnection` or psql
//! follow them, so a worker does, too. tokio-postgres reads none of them, and its default of a name is another one: its
//! claims would be made in one database, and blocking handlers would work in another.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::ffi::OsString;

use tokio_postgres::Config;

use super::holds_other_parts;
use super::parameters::Parameters;

/// Returns the value of a variable.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

const PORT: &str = "PGPORT";

/// The variables, and the parameters whose defaults they are.
///
/// Missing are those that change nothing here: Diesel sets the encoding and the time zone of each session itself
/// (PGCLIENTENCODING, PGTZ), no statement of ours depends on PGDATESTYLE or PGGEQO, PGSERVICEFILE is read only for a
/// service, and nothing depends on the version of the protocol. A server that asks for the password in PGPASSFILE, for
/// Kerberos or for OAuth accepts no worker at all.
const VARIABLES: [(&str, &str); 22] = [
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGDATABASE", "dbname"),
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    (PORT, "port"),
    ("PGOPTIONS", "options"),
    ("PGAPPNAME", "application_name"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLCERTMODE", "sslcertmode"),
    ("PGSSLSNI", "sslsni"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGGSSENCMODE", "gssencmode"),
];

/// Variables whose parameters are refused: libpq would follow them, and tokio-postgres cannot.
const REFUSED: [(&str, &str); 5] = [
    ("PGSERVICE", "service"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
];

/// libpq refuses an empty value of these parameters. An empty variable of another one is as good as none.
const NEVER_EMPTY: [&str; 8] = [
    "connect_timeout",
    "target_session_attrs",
    "load_balance_hosts",
    "channel_binding",
    "sslmode",
    "sslnegotiation",
    "sslcertmode",
    "gssencmode",
];

/// libpq before version 16 or 17 refuses these parameters and ignores the variables. A newer one reads the variables
/// itself.
const NEW_IN_LIBPQ: [&str; 3] = ["load_balance_hosts", "sslcertmode", "sslnegotiation"];

/// Takes what the URL does not say from the environment. The error says what is wrong with which variable.
pub(super) fn complete(parameters: &mut Parameters, config: &mut Config, variable: Variable<'_>) -> Result<(), String> {
    for (name, parameter) in VARIABLES {
        if is_said(parameters, config, parameter) {
            continue;
        }
        if let Some(value) = value(variable, name)?
            && (!value.is_empty() || NEVER_EMPTY.contains(&parameter))
        {
            let refused = |problem| refused(name, problem);
            if parameter != "password" && holds_other_parts(&value) {
                return Err(refused(format!("another URL as {parameter}; write the URL into DATABASE_URL")));
            }
            if parameter == "host" && value.split(',').any(str::is_empty) {
                return Err(refused(format!("host={value}; write a name of each host")));
            }
            parameters.take(config, parameter, value).map_err(refused)?;
            parameters.all.retain(|(of, _)| !NEW_IN_LIBPQ.contains(&parameter) || of != parameter);
        }
    }
    for (name, parameter) in REFUSED {
        if let Some(value) = value(variable, name)?.filter(|value| !value.is_empty()) {
            let refused = |problem| refused(name, format!("{problem}, and unset the variable"));
            parameters.take(config, parameter, value).map_err(refused)?;
        }
    }
    // An older name of a setting, which libpq still reads.
    if !is_said(parameters, config, "sslmode")
        && value(variable, "PGREQUIRESSL")?.is_some_and(|value| value.starts_with('1'))
    {
        parameters.take(config, "sslmode", "require".to_owned())?;
    }
    Ok(())
}

/// The URL with the port of the environment, if it names one host and no port. The parser gives such a host the default
/// port at once.
pub(super) fn with_port(url: &str, variable: Variable<'_>) -> Result<String, String> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let place = rest.split_once('@').map_or(rest, |(_, place)| place);
    let host = place.split('/').next().unwrap_or(place);
    let (_, after) = host.rsplit_once(']').unwrap_or(("", host));
    if host.is_empty() || host.contains(',') || after.contains(':') {
        return Ok(url.to_owned());
    }
    let Some(port) = value(variable, PORT)?.filter(|port| !port.is_empty()) else { return Ok(url.to_owned()) };
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(refused(PORT, format!("port={}; write a number from 1 to 65535", port.escape_debug())));
    }
    let (before, name) = url.split_at(url.len() - place.len() + host.len());
    Ok(format!("{before}:{port}{name}"))
}

fn is_said(parameters: &Parameters, config: &Config, parameter: &str) -> bool {
    match parameter {
        "user" => config.get_user().is_some(),
        "password" => config.get_password().is_some(),
        "dbname" => config.get_dbname().is_some(),
        "host" => !config.get_hosts().is_empty(),
        "port" => !config.get_ports().is_empty(),
        other => parameters.all.iter().any(|(of, _)| of == other),
    }
}

fn value(variable: Variable<'_>, name: &str) -> Result<Option<String>, String> {
    let read = |value: OsString| value.into_string().map_err(|_| refused(name, "a value that is not UTF-8".to_owned()));
    variable(name).map(read).transpose()
}

fn refused(name: &str, problem: String) -> String {
    format!("the environment variable {name} completes the database URL with {problem}")
}
