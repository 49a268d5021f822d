//! Writes a database URL in a form that libpq and we read in the same way. Each part is percent-encoded, in its own
//! parameter. The original text may have another meaning for libpq: a `/` in the password ends the password, and a
//! single `%` is an error. The errors of libpq also quote the text that it cannot read.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::settings::Keepalive;
use super::url::role::Role;

/// The parameters that are also parts of a URL. Their values come from the parsed URL, which includes both.
const PARTS: [&str; 5] = ["user", "password", "host", "port", "dbname"];

/// The URL for libpq. `parameters` are those of the original URL, decoded.
pub(super) fn url(config: &Config, parameters: &[(String, String)], role: Role) -> String {
    let others = parameters.iter().filter(|(name, _)| !PARTS.contains(&name.as_str()));
    let mut parameters: Vec<String> =
        others.map(|(name, value)| format!("{name}={}", encoded(value.as_bytes()))).collect();
    if ![Role::Unstated, Role::Any].contains(&role)
        && !parameters.iter().any(|pair| pair.starts_with("target_session_attrs="))
    {
        parameters.push(format!("target_session_attrs={}", role.name()));
    }
    let mut part = |name: &str, value: Option<String>| {
        parameters.extend(value.filter(|value| !value.is_empty()).map(|value| format!("{name}={value}")));
    };
    part("user", config.get_user().map(|user| encoded(user.as_bytes())));
    // libpq accepts no NUL, and its error quotes a value that holds one.
    part("password", config.get_password().filter(|password| !password.contains(&0)).map(encoded));
    part("dbname", config.get_dbname().map(|name| encoded(name.as_bytes())));
    let host = |host: &Host| match host {
        Host::Tcp(name) => encoded(name.as_bytes()),
        #[cfg(unix)]
        Host::Unix(path) => encoded(path.to_string_lossy().as_bytes()),
    };
    part("host", Some(list(config.get_hosts(), host)));
    part("port", Some(list(config.get_ports(), u16::to_string)));
    format!("postgres://?{}", parameters.join("&"))
}

/// The same URL, with settings that make both ends notice a dead connection, and a limit for the time that each host
/// may take. The original parameters come last, so they win.
pub(super) fn with_keepalive(url: &str, config: &Config, keepalive: Keepalive, each_host: Duration) -> String {
    let typed = url.split_once('?').map_or("", |(_, query)| query);
    let options = match config.get_options() {
        Some(typed) => format!("{} {typed}", keepalive.options()),
        None => keepalive.options(),
    };
    let others = typed.split('&').filter(|pair| !pair.starts_with("options="));
    let ours = [
        format!("connect_timeout={}", each_host.as_secs().max(1)),
        format!("keepalives_idle={}", keepalive.idle.as_secs()),
        format!("keepalives_interval={}", keepalive.interval.as_secs()),
        format!("keepalives_count={}", keepalive.probes),
        format!("tcp_user_timeout={}", keepalive.unacknowledged.as_millis()),
        format!("options={}", encoded(options.as_bytes())),
    ];
    format!("postgres://?{}", ours.iter().map(String::as_str).chain(others).collect::<Vec<_>>().join("&"))
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(",")
}

fn encoded(bytes: &[u8]) -> String {
    let encode = |byte: &u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::super::settings::LeaseTime;
    use super::super::url::Url;
    use super::*;

    fn read(typed: &str) -> Url {
        Url::read(typed).expect("a URL")
    }

    fn rewritten(typed: &str) -> String {
        let Url { config, parameters, role, .. } = read(typed);
        url(&config, &parameters, role)
    }

    #[test]
    fn each_part_is_encoded_and_the_other_parameters_stay() {
        assert_eq!(
            rewritten("postgres://me:a/b%zz%40@db.example.org:5433/app?sslmode=require&application_name=my%20app"),
            "postgres://?sslmode=require&application_name=my%20app&user=me&password=a%2Fb%25zz%40&dbname=app\
             &host=db%2Eexample%2Eorg&port=5433"
        );
        assert_eq!(
            rewritten("postgres://%2Fvar%2Frun,[::1]:1/x"),
            "postgres://?target_session_attrs=primary&dbname=x&host=%2Fvar%2Frun,%3A%3A1&port=5432,1"
        );
        assert_eq!(rewritten("postgres:///?host=a&user=b&password=c"), "postgres://?user=b&password=c&host=a");
    }

    #[test]
    fn what_was_typed_about_keepalives_is_kept() {
        let typed = "postgres://h/x?keepalives_idle=99&options=-c%20work_mem%3D1MB";
        let keepalive = LeaseTime::default().keepalive();
        let each_host = Duration::from_secs(5);
        let url = with_keepalive(&rewritten(typed), &read(typed).config, keepalive, each_host);
        assert!(url.rfind("keepalives_idle=99") > url.rfind("keepalives_idle=15"), "{url}");
        assert!(url.contains("tcp%5Fkeepalives%5Fidle%3D15"), "{url}");
        assert!(url.matches("options=").count() == 1 && url.contains("work%5Fmem%3D1MB"), "{url}");
    }
}
