//! What the environment says, and what is refused in it.

use std::ffi::OsString;

use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};

use crate::pg::tls::Verify;
use crate::pg::url::Url;
use crate::pg::url::role::Role;

fn answer(url: &str, variables: &[(&str, &str)]) -> Result<Url, String> {
    let variable = |name: &str| {
        let set = variables.iter().find(|(of, _)| *of == name);
        set.map(|(_, value)| OsString::from(*value))
    };
    Url::read_in(url, &variable).map_err(|problem| problem.to_string())
}

fn read(url: &str, variables: &[(&str, &str)]) -> Url {
    answer(url, variables).unwrap_or_else(|problem| panic!("{url}: {problem}"))
}

fn parameters(url: &Url) -> Vec<(&str, &str)> {
    url.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn the_environment_says_what_the_url_leaves_open() {
    let all = [
        ("PGUSER", "me"),
        ("PGPASSWORD", "s3cret"),
        ("PGDATABASE", "app"),
        ("PGHOST", "a,b"),
        ("PGPORT", "1,2"),
        ("PGOPTIONS", "-c jit=off"),
        ("PGAPPNAME", "shop"),
        ("PGCONNECT_TIMEOUT", "7"),
        ("PGTARGETSESSIONATTRS", "standby"),
        ("PGLOADBALANCEHOSTS", "random"),
        ("PGSSLMODE", "verify-ca"),
        ("PGSSLROOTCERT", "/ca.pem"),
    ];
    let url = read("postgres://", &all);
    let config = &url.config;
    assert_eq!((config.get_user(), config.get_password()), (Some("me"), Some(&b"s3cret"[..])));
    assert_eq!(config.get_dbname(), Some("app"));
    assert_eq!(config.get_hosts(), [Host::Tcp("a".to_owned()), Host::Tcp("b".to_owned())]);
    assert_eq!((config.get_ports(), config.get_load_balance_hosts()), (&[1, 2][..], LoadBalanceHosts::Random));
    assert_eq!(config.get_options(), Some("-c jit=off"));
    assert_eq!((config.get_application_name(), url.role), (Some("shop"), Role::Standby));
    assert_eq!(config.get_connect_timeout().map(|limit| limit.as_secs()), Some(7));
    // libpq gets the same values.
    let of_libpq = parameters(&url);
    for pair in [("connect_timeout", "7"), ("options", "-c jit=off"), ("sslmode", "verify-ca")] {
        assert!(of_libpq.contains(&pair), "{of_libpq:?}");
    }
    // An older libpq refuses this parameter, and ignores the variable.
    assert!(of_libpq.iter().all(|(name, _)| *name != "load_balance_hosts"), "{of_libpq:?}");
    let tls = url.tls.unwrap();
    assert_eq!((tls.verify, tls.roots.as_deref()), (Verify::Chain, Some("/ca.pem")));
}

#[test]
fn the_url_comes_first() {
    let others = [
        ("PGUSER", "other"),
        ("PGPASSWORD", "other"),
        ("PGDATABASE", "other"),
        ("PGHOST", "other"),
        ("PGPORT", "9"),
        ("PGOPTIONS", "other"),
        ("PGAPPNAME", "other"),
        ("PGSSLMODE", "other"),
        ("PGREQUIRESSL", "1"),
    ];
    let url = read("postgres://me:x@h:5433/app?options=-cjit%3Doff&application_name=shop&sslmode=disable", &others);
    let config = &url.config;
    assert_eq!((config.get_user(), config.get_password()), (Some("me"), Some(&b"x"[..])));
    assert_eq!((config.get_dbname(), config.get_ports()), (Some("app"), &[5433][..]));
    assert_eq!(config.get_hosts(), [Host::Tcp("h".to_owned())]);
    assert_eq!((config.get_options(), config.get_application_name()), (Some("-cjit=off"), Some("shop")));
    assert_eq!(config.get_ssl_mode(), SslMode::Disable);
    assert_eq!(parameters(&url).len(), 3);
}

/// As for libpq. With several hosts, no port is the default of each.
#[test]
fn a_host_without_a_port_has_that_of_the_environment() {
    for (url, ports) in [
        ("postgres://h", &[9][..]),
        ("postgres://me:x%40@h/app?sslmode=disable", &[9]),
        ("postgres://[::1]/app", &[9]),
        ("postgres://%2Frun%2Fpg/app", &[9]),
        ("postgres:///app", &[9]),
        ("postgres:///app?host=/run/pg", &[9]),
        ("postgres://me@/app", &[9]),
        ("postgres://h:7/app", &[7]),
        ("postgres://[::1]:7/app", &[7]),
        ("postgres:///app?port=7", &[7]),
        ("postgres://a,b/app", &[5432, 5432]),
    ] {
        assert_eq!(read(url, &[("PGPORT", "9")]).config.get_ports(), ports, "{url}");
    }
    assert_eq!(read("postgres://h/app", &[("PGPORT", "")]).config.get_ports(), [5432]);
}

#[test]
fn a_variable_that_cannot_be_followed_is_refused_by_its_name() {
    for (name, value, problem) in [
        (
            "PGSERVICE",
            "app",
            "the parameter service, which is not supported here; write what the service stands for, and unset",
        ),
        (
            "PGREQUIREAUTH",
            "scram-sha-256",
            "the parameter require_auth, which is not supported here; write channel_binding",
        ),
        ("PGSSLCRL", "/crl.pem", "the parameter sslcrl, which is not supported here; leave it out"),
        ("PGSSLMODE", "", "sslmode=; write disable, allow"),
        ("PGCONNECT_TIMEOUT", "soon", "connect_timeout=soon; write whole seconds"),
        ("PGPORT", "5432,5433", "port=5432,5433; write a number from 1 to 65535"),
        ("PGTARGETSESSIONATTRS", "master", "target_session_attrs=master; write any"),
        ("PGDATABASE", "postgres://me:s3cret@h/app", "another URL as dbname"),
        ("PGSSLMODE", "postgres://me:s3cret@h/app", "another URL as sslmode"),
    ] {
        let refusal = answer("postgres://h", &[(name, value)]).err().unwrap_or_default();
        let beginning = format!("the environment variable {name} completes the database URL with {problem}");
        assert!(refusal.starts_with(&beginning) && !refusal.contains("s3cret"), "{name}: {refusal}");
    }
    let halves = answer("postgres://h?sslmode=require", &[("PGUSER", "me"), ("PGSSLCERT", "/x")]).err().unwrap();
    assert!(
        halves.starts_with("the database URL, completed by libpq's environment variables, has sslcert"),
        "{halves}"
    );
    let halves = answer("postgres://h?sslcert=/x", &[("PGUSER", "me")]).err().unwrap();
    assert!(halves.starts_with("the database URL has sslcert"), "{halves}");
    assert!(answer("postgres://", &[("PGHOST", "a,,b")]).err().unwrap().contains("write a name of each host"));
    // They have no effect.
    let idle = [("PGSERVICEFILE", "/x"), ("PGPASSFILE", "/x"), ("PGTZ", "CET"), ("PGUSER", ""), ("PGREQUIRESSL", "0")];
    assert_eq!(parameters(&read("postgres://h", &idle)), []);
    assert_eq!(parameters(&read("postgres://h", &[("PGREQUIRESSL", "1")])), [("sslmode", "require")]);
}

/// The claims of a worker are made on the connections of one of them, and its blocking handlers work on those of
/// the other.
#[cfg(feature = "postgres-sync")]
#[tokio::test]
async fn both_clients_reach_the_database_of_the_environment() {
    use diesel::prelude::*;
    use diesel::sql_types::Text;

    const WHERE: &str = "current_database() || ' ' || current_user || ' ' || current_setting('jit')";
    let of_server = Url::read(&crate::pg::tests::url("template1")).unwrap().config;
    let host = match &of_server.get_hosts()[0] {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.to_string_lossy().into_owned(),
    };
    let (port, user) = (of_server.get_ports()[0].to_string(), of_server.get_user().unwrap());
    let variables = [
        ("PGHOST", host.as_str()),
        ("PGPORT", &port),
        ("PGUSER", user),
        ("PGDATABASE", "template1"),
        ("PGOPTIONS", "-c jit=off"),
    ];
    let Url { config, parameters, role, .. } = read("postgres://", &variables);
    let expression = || diesel::dsl::sql::<Text>(WHERE);
    let mut own = crate::pg::hosts::open(&config, None, role).await.unwrap().conn;
    let own: String = diesel_async::RunQueryDsl::get_result(diesel::select(expression()), &mut own).await.unwrap();
    let mut theirs = PgConnection::establish(&crate::pg::libpq::url(&config, &parameters, role)).unwrap();
    let theirs: String = RunQueryDsl::get_result(diesel::select(expression()), &mut theirs).unwrap();
    let expected = format!("template1 {user} off");
    assert_eq!([own, theirs], [expected.clone(), expected]);
}
