//! The part of a database URL that may be printed.

use diesel_jobs_storage::{may_hold_a_password, percent_decoded};

use super::output::printable;

/// Returns the database and host of a URL, without user, password and parameters. Returns `None` if the parts cannot be
/// separated with certainty: a password may contain an unescaped `/`, `?` or `@`.
pub(super) fn place(url: &str) -> Option<String> {
    place_in(url, &|name| std::env::var(name).ok())
}

/// The same. The variables of libpq say what the URL leaves open.
fn place_in(url: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme == "sqlite" {
        return Some(rest.split('?').next().unwrap_or(rest).to_owned()).filter(|path| !may_hold_a_password(path));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        return None;
    }
    let query = tail.split_once('?').map_or("", |(_, query)| query);
    let parameter = |name: &str| {
        let values = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(key, _)| *key == name);
        values.map(|(_, value)| value).next_back().filter(|value| !value.is_empty())
    };
    // Parameters override what is before them.
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty());
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let (address, default) = (variable("PGHOSTADDR"), variable("PGHOST"));
    let address = parameter("hostaddr").or(address.as_deref());
    let host = address.or(parameter("host")).or(host).or(default.as_deref()).unwrap_or("the local socket");
    // `user:password` without a host looks like host and port.
    if !host.split(',').all(is_host) {
        return None;
    }
    let name = tail.strip_prefix('/').and_then(|tail| tail.split(['?', '#']).next()).filter(|name| !name.is_empty());
    let default = variable("PGDATABASE");
    let name = parameter("dbname").or(name).or(default.as_deref());
    // It may be followed by a second URL or by parameters, with a password of their own.
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || "&;,:='\"".contains(c);
    if name.is_some_and(|name| name.contains(is_odd) || hides_a_separator(name)) {
        return None;
    }
    let name = name.map(|name| printable(&percent_decoded(name)));
    Some(name.map_or_else(|| host.to_owned(), |name| format!("database {name} at {host}")))
}

/// Whether this is a host name or an address, with an optional port number.
fn is_host(written: &str) -> bool {
    let (name, port) = match written.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((address, rest)) => (address.replace(':', ""), rest.strip_prefix(':').unwrap_or(rest)),
        None => {
            let (name, port) = written.split_once(':').unwrap_or((written, ""));
            (name.to_owned(), port)
        }
    };
    name.chars().all(|c| c.is_alphanumeric() || "-_.%/ ".contains(c))
        && port.chars().all(|c| c.is_ascii_digit())
        && !hides_a_separator(&name)
}

/// Whether a `@`, `:` or `=` is percent-encoded here. A password may be beside it.
fn hides_a_separator(written: &str) -> bool {
    ["%40", "%3a", "%3d"].iter().any(|encoded| written.to_ascii_lowercase().contains(encoded))
}

#[cfg(test)]
mod tests {
    use super::{place, place_in};

    #[test]
    fn the_environment_completes_the_place() {
        let place = |url: &str, variables: &[(&str, &str)]| {
            place_in(url, &|name| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned()))
        };
        let (name, host) = (("PGDATABASE", "app"), ("PGHOST", "db.local"));
        assert_eq!(place("postgres://", &[name, host]).unwrap(), "database app at db.local");
        assert_eq!(place("postgres://a/b", &[name, host]).unwrap(), "database b at a");
        assert_eq!(place("postgres://a/b", &[("PGHOSTADDR", "10.0.0.7")]).unwrap(), "database b at 10.0.0.7");
        assert_eq!(place("postgres://", &[("PGDATABASE", ""), ("PGHOST", "")]).unwrap(), "the local socket");
        assert_eq!(place("postgres://", &[("PGDATABASE", "postgres://me:XY@h/x")]), None);
    }

    #[test]
    fn a_place_is_host_and_name() {
        assert_eq!(
            place("postgres://me:secret@db.local:5433/app?sslmode=require").unwrap(),
            "database app at db.local:5433"
        );
        assert_eq!(place("postgres:///app?user=me&password=secret").unwrap(), "database app at the local socket");
        assert_eq!(place("postgres://db.local").unwrap(), "db.local");
        assert_eq!(place("postgres://db/v1?dbname=v2&dbname=v3").unwrap(), "database v3 at db");
        assert_eq!(place("postgres:///app?host=/run/postgresql&port=5433").unwrap(), "database app at /run/postgresql");
        assert_eq!(
            place("postgres://db/we%22ird%3b%20$(touch%20PWN)%0A%e2%80%ae100%25").unwrap(),
            r#"database we"ird; $(touch PWN)\n\u{202e}100% at db"#
        );
        assert_eq!(place("postgres://db?dbname=gr%C3%B6%C3%9Fe").unwrap(), "database größe at db");
        assert_eq!(place("postgres://db/app?hostaddr=10.0.0.7").unwrap(), "database app at 10.0.0.7");
        assert_eq!(place("postgres://me@[::1]:5433,db-2:5432/app").unwrap(), "database app at [::1]:5433,db-2:5432");
        assert_eq!(place("sqlite:///var/lib/app/jobs.db?mode=rw").unwrap(), "/var/lib/app/jobs.db");
    }

    #[test]
    fn no_place_repeats_a_password() {
        let refuse = |url: String| {
            let shown = place(&url).unwrap_or_default();
            assert!(!shown.contains(['X', 'Y']) && !shown.contains("me:"), "{url}: {shown}");
        };
        for password in ["XXYY", "XX/YY", "XX?YY", "XX#YY", "XX@YY", "XX:YY", "12/YY", "X@X/Y@Y", "/", "@"] {
            for end in ["@db.local/app", "@db.local", "@db.local/app?password=X"] {
                refuse(format!("postgres://me:{password}{end}"));
            }
        }
        // The host is missing, and the password is in its place.
        refuse("postgres://me:XY".to_owned());
        refuse("postgres://me:XY/app".to_owned());
        // The `@` is missing, or another character is in its place.
        refuse("postgres://me:XY\u{16}127.0.0.1:1/app".to_owned());
        refuse("postgres://me:XY127.0.0.1:1/app".to_owned());
        // Two URLs in one.
        refuse("postgres://db.local/postgres://me:XY".to_owned());
        for separator in ["&", ";", " ", "\n", ","] {
            refuse(format!("postgres://db.local/app{separator}password=XY"));
            refuse(format!("postgres://db.local/app?dbname=app{separator}password=XY"));
        }
        refuse("sqlite://postgres://me:XY@db.local/app".to_owned());
        refuse("sqlite://me:XY@db.local/app".to_owned());
        // What separates the parts is percent-encoded.
        for rest in
            ["me%3AXY%40db.local/app", "me%3aXY@db.local%40:5432/app", "db.local/app%3Fpassword%3DXY", "db%3AXY/app"]
        {
            refuse(format!("postgres://{rest}"));
        }
    }
}
