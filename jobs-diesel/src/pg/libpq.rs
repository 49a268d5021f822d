//! A database URL in the one form that libpq and we cannot read differently: each part percent-encoded, in a parameter of its
//! own. As it was typed it may mean something else to libpq (a `/` in the password ends it there, a lone `%` is an error), and
//! libpq's errors quote what they stumble over.

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The parameters that are also parts of a URL: taken from what was understood of both.
const PARTS: [&str; 5] = ["user", "password", "host", "port", "dbname"];

/// The URL for libpq; `query` is what was typed behind the `?`.
pub(super) fn url(config: &Config, query: &str) -> String {
    let mut parameters: Vec<String> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !PARTS.contains(&pair.split('=').next().unwrap_or_default()))
        .map(str::to_owned)
        .collect();
    let mut part = |name: &str, value: Option<String>| {
        parameters.extend(value.filter(|value| !value.is_empty()).map(|value| format!("{name}={value}")));
    };
    part("user", config.get_user().map(|user| encoded(user.as_bytes())));
    // libpq takes no NUL, and quotes what holds one.
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
    use super::*;

    fn rewritten(typed: &str) -> String {
        url(&typed.parse().expect("a URL"), typed.split_once('?').map_or("", |(_, query)| query))
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
            "postgres://?dbname=x&host=%2Fvar%2Frun,%3A%3A1&port=5432,1"
        );
        assert_eq!(rewritten("postgres:///?host=a&user=b&password=c"), "postgres://?user=b&password=c&host=a");
    }
}
