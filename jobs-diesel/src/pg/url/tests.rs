//! URLs that are understood, and refusals.

use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::Url;
use super::role::Role;
use crate::pg::connect::Connector;
use crate::pg::tls::Verify;

fn refusal(url: &str) -> String {
    Connector::from_url(url).err().expect("refused").to_string()
}

#[test]
fn a_wrong_url_is_refused_without_repeating_it() {
    let message = refusal("postgres://me:s3cret@host:notaport/db");
    assert!(message.contains("not a valid PostgreSQL URL") && !message.contains("s3cret"), "{message}");
    // A `?` that is not percent-encoded ends the password, and the rest of the password looks like parameters.
    for url in ["me:x?s3cret@host/db", "me:x?s3cret=y@host/db", "me:x?sslmode=s3cret@host/db", "me:x?a&s3cret@host"] {
        let message = refusal(&format!("postgres://{url}"));
        assert!(message.contains("percent-encoded") && !message.contains("s3cret"), "{url}: {message}");
    }
}

#[test]
fn an_at_sign_in_the_password_is_refused_with_the_way_to_write_it() {
    for url in ["postgres://me:x@s3cret@host/db", "postgres://me:x@s3cret@host", "postgres://me:x@s3cret@[::1]:5432/db"]
    {
        let message = refusal(url);
        assert!(message.contains("`@` as %40") && !message.contains("s3cret"), "{url}: {message}");
    }
    assert!(Connector::from_url("postgres://me:x%40y@host/db").is_ok());
    assert!(Connector::from_url("postgres://me:x%40y@host/db@home").is_ok(), "the database's name may contain it");
}

#[test]
fn percent_encoded_separators_are_refused_without_repeating_what_is_between_them() {
    for url in [
        "me%3As3cret%40host:5432/db",
        "me%3As3cret@host/db",
        "host%3As3cret/db",
        "host/db%3Fpassword%3Ds3cret",
        "host/db?user=me%3As3cret",
        "host/db?dbname=postgres%3A%2F%2Fme%3As3cret%40host%2Fdb",
    ] {
        let message = refusal(&format!("postgres://{url}"));
        assert!(message.contains("percent-encoded") && !message.contains("s3cret"), "{url}: {message}");
    }
    assert!(Url::read("postgres://me@[fe80::1]:5432/a%3Ab?hostaddr=fe80::1").is_ok());
}

#[test]
fn what_follows_the_name_of_the_database_is_refused_without_repeating_it() {
    for after in [
        "\n# next: postgres://app:s3cret@h/b",
        "&password=s3cret",
        ";password=s3cret",
        " password=s3cret",
        "\tpassword=s3cret",
    ] {
        let message = refusal(&format!("postgres://me@h/a{after}"));
        assert!(message.contains("a name of the database with") && !message.contains("s3cret"), "{after:?}: {message}");
    }
    for after in [",postgres://app:s3cret@h/b", "\npostgres://app:s3cret@h/b"] {
        assert!(!refusal(&format!("postgres://me@h/a{after}")).contains("s3cret"), "{after:?}");
    }
    for after in
        ["?application_name=jobs\npostgres://app:s3cret@h/b", "?sslmode=require\n# s3cret", "?dbname=a;password=s3cret"]
    {
        assert!(!refusal(&format!("postgres://me@h/a{after}")).contains("s3cret"), "{after:?}");
    }
    assert_eq!(read("postgres://me@h/a%20b%26c").config.get_dbname(), Some("a b&c"));
    assert_eq!(read("postgres://me:x/9==@h:5432/a").config.get_dbname(), Some("a"), "the password has a slash");
}

#[test]
fn every_sslmode_of_libpq_is_understood_and_others_are_named() {
    for mode in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
        assert!(
            Connector::from_url(&format!("postgres://localhost/x?sslmode={mode}&application_name=y")).is_ok(),
            "{mode}"
        );
    }
    assert!(refusal("postgres://localhost/x?sslmode=maybe").contains("maybe"));
    let misspelt = refusal("postgres://localhost/x?sslmod=require");
    assert!(misspelt.contains("unknown parameter \"sslmod\""), "{misspelt}");
    assert!(refusal("postgres://localhost/x?sslmode=verify-ca&sslrootcert=%2Fno%2Fsuch.pem").contains("/no/such.pem"));
}

#[test]
fn a_url_in_place_of_the_path_of_a_certificate_is_not_repeated() {
    let other = "postgres://me:s3cret%40h/x";
    for parameters in [format!("sslrootcert={other}"), format!("sslcert={other}&sslkey=/no/such.pem")] {
        let message = refusal(&format!("postgres://localhost/x?sslmode=verify-ca&{parameters}"));
        assert!(message.contains("write the path of a file") && !message.contains("s3cret"), "{message}");
    }
}

fn read(url: &str) -> Url {
    Url::read_in(url, &|_| None).unwrap_or_else(|error| panic!("{url}: {error}"))
}

#[test]
fn each_parameter_has_libpqs_meaning() {
    let url = read(
        "postgresql://me@a/app?connect_timeout=7&keepalives=0&keepalives_idle=9&keepalives_interval=8&keepalives_count=3\
         &tcp_user_timeout=20000&target_session_attrs=read-write&channel_binding=require&options=-c%20jit%3Doff\
         &sslnegotiation=direct&sslmode=verify%2Dca&fallback_application_name=x&client_encoding=UTF8&gssencmode=disable\
         &sslsni=1&ssl_min_protocol_version=TLSv1.2",
    );
    let config = &url.config;
    let seconds = Duration::from_secs;
    assert_eq!(config.get_connect_timeout(), Some(&seconds(7)));
    // libpq reads milliseconds.
    assert_eq!(config.get_tcp_user_timeout(), Some(&seconds(20)));
    assert_eq!((config.get_keepalives(), config.get_keepalives_idle()), (false, seconds(9)));
    assert_eq!((config.get_keepalives_interval(), config.get_keepalives_retries()), (Some(seconds(8)), Some(3)));
    assert_eq!((config.get_options(), config.get_application_name()), (Some("-c jit=off"), Some("x")));
    assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    assert_eq!((config.get_ssl_mode(), url.tls.unwrap().verify), (SslMode::Require, Verify::Chain));
    let named = read("postgres://a/app?fallback_application_name=x&application_name=y");
    assert_eq!(named.config.get_application_name(), Some("y"));
    // As for libpq, the last value counts.
    let twice = read("postgres://a/app?options=-c%20jit%3Doff&application_name=x&options=&application_name=y");
    assert_eq!((twice.config.get_options(), twice.config.get_application_name()), (Some(""), Some("y")));
    assert_eq!(twice.parameters.len(), 2);
    let of_system = read("postgres://a/app?sslrootcert=system");
    assert_eq!(
        (of_system.config.get_ssl_mode(), of_system.tls.unwrap().verify),
        (SslMode::Require, Verify::ChainAndName)
    );
    let newest = read("postgres://a/app?sslmode=require&ssl_min_protocol_version=TLSv1.3").tls.unwrap();
    assert_eq!((newest.only_tls12, newest.only_tls13), (false, true));
}

#[test]
fn every_form_of_a_host_is_understood() {
    let tcp = |name: &str| Host::Tcp(name.to_owned());
    let hosts = |url: &str| read(url).config.get_hosts().to_vec();
    assert_eq!(hosts("postgres://a:1,[::1]:2/app"), [tcp("a"), tcp("::1")]);
    assert_eq!(hosts("postgres:///app?host=a,b&port=1,2"), [tcp("a"), tcp("b")]);
    assert_eq!(read("postgres:///app?host=a,b&port=1,2").config.get_ports(), [1, 2]);
    let socket = Host::Unix("/run/pg".into());
    for url in ["postgres:///app?host=/run/pg", "postgres://%2Frun%2Fpg/app", "postgres://?host=%2Frun%2Fpg"] {
        assert_eq!(hosts(url), std::slice::from_ref(&socket), "{url}");
    }
    // As for libpq, no host is the server of this machine.
    for url in ["postgres:///app", "postgres://", "postgres://me@/app", "postgres:///app?port=5433"] {
        assert!(matches!(&hosts(url)[..], [Host::Unix(_)]), "{url}");
    }
    let address = read("postgres:///app?hostaddr=10.0.0.1").config;
    assert_eq!((address.get_hosts().len(), address.get_hostaddrs().len()), (0, 1));
}

#[test]
fn of_several_hosts_the_primary_is_used() {
    for (url, role) in [
        ("postgres://a/app", Role::Unstated),
        ("postgres://a,b/app", Role::Primary),
        ("postgres:///app?host=a,b", Role::Primary),
        ("postgres:///app?hostaddr=10.0.0.1,10.0.0.2", Role::Primary),
        ("postgres://a,b/app?target_session_attrs=any", Role::Any),
        ("postgres://a,b/app?target_session_attrs=read-write", Role::Any),
        ("postgres://a/app?target_session_attrs=primary", Role::Primary),
        ("postgres://a/app?target_session_attrs=standby", Role::Standby),
        ("postgres://a,b/app?target_session_attrs=prefer-standby", Role::PreferStandby),
    ] {
        assert_eq!(read(url).role, role, "{url}");
    }
}

#[test]
fn what_is_wrong_with_a_parameter_is_said_with_its_name() {
    for (parameters, part) in [
        ("connect_timeout=abc", "connect_timeout=abc; write whole seconds, such as connect_timeout=10"),
        ("connect_timeout=1.5", "connect_timeout=1.5; write whole seconds"),
        ("connect_timeout", "connect_timeout=; write whole seconds"),
        ("tcp_user_timeout=20s", "whole milliseconds"),
        ("channel_binding=maybe", "channel_binding=maybe; write prefer, require or disable"),
        ("target_session_attrs=master", "write any, read-write, read-only, primary, standby or prefer-standby"),
        ("load_balance_hosts=round", "write random or disable"),
        ("keepalives=yes", "write 1 or 0"),
        (
            "keepalives_retries=3",
            "the parameter keepalives_retries, which is not supported here; write keepalives_count",
        ),
        ("keepalives_idle=-1", "keepalives_idle=-1; write whole seconds"),
        ("hostaddr=localhost", "write IP addresses"),
        ("port=5433", "port=5433; the URL names a port already"),
        ("host=b", "write it once"),
        ("sslmode=on", "write disable, allow, prefer, require, verify-ca or verify-full"),
        ("ssl=true", "write sslmode=require"),
        ("sslcert=/a", "sslcert and no sslkey"),
        ("sslkey=/a", "sslkey and no sslcert"),
        ("sslcertmode=require", "no certificate"),
        ("sslrootcert=", "write the path of a file"),
        ("sslrootcert=system&sslmode=require", "write sslmode=verify-full"),
        ("sslmode=disable&sslrootcert=system", "write sslmode=verify-full"),
        ("sslnegotiation=direct", "add one of them"),
        ("sslpassword=x", "without a password"),
        ("ssl_max_protocol_version=TLSv1.1", "write TLSv1.2 or TLSv1.3"),
        ("ssl_min_protocol_version=TLSv1.3&ssl_max_protocol_version=TLSv1.2", "ssl_max_protocol_version"),
        ("client_encoding=LATIN1", "client_encoding=LATIN1; write UTF8"),
        ("gssencmode=require", "gssencmode=require; write disable"),
        ("passfile=/a", "the parameter passfile, which is not supported here"),
        ("service=app", "write what the service stands for"),
        ("hostaddr=10.0.0.1&hostaddr=10.0.0.2", "the URL has this parameter twice"),
        ("sslmod=require", "did you mean sslmode?"),
        ("a=1", "the unknown parameter \"a\"; it may have user, password"),
    ] {
        let message = refusal(&format!("postgres://me:s3cret@a/app?{parameters}"));
        let message = message.strip_prefix("the database URL has ").unwrap_or_else(|| panic!("{message}"));
        assert!(message.contains(part), "{parameters}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
    assert!(refusal("postgres://:5433/app").contains("host without a name"));
}

/// The parameters of libpq 18, and those of earlier and later versions.
#[test]
fn no_parameter_of_libpq_is_unknown() {
    for name in "authtype service servicefile user password passfile channel_binding connect_timeout dbname host \
                 hostaddr port client_encoding tty options application_name fallback_application_name keepalives \
                 keepalives_idle keepalives_interval keepalives_count tcp_user_timeout sslnegotiation sslcompression \
                 sslmode sslcert sslkey sslcertmode sslpassword sslrootcert sslcrl sslcrldir sslsni requirepeer \
                 requiressl require_auth min_protocol_version max_protocol_version ssl_min_protocol_version \
                 ssl_max_protocol_version gssencmode krbsrvname gsslib gssdelegation replication \
                 target_session_attrs load_balance_hosts scram_client_key scram_server_key oauth_issuer \
                 oauth_client_id oauth_client_secret oauth_scope oauth_ca_file sslkeylogfile"
        .split_whitespace()
    {
        let answer = Connector::from_url(&format!("postgres://a/app?{name}=s3cret"));
        let refused = answer.err().map(|problem| problem.to_string()).unwrap_or_default();
        assert!(!refused.contains("unknown"), "{refused}");
        // The value may be a secret.
        let is_refused = refused.contains(&format!("the parameter {name}, which is not supported here; "));
        assert!(!is_refused || !refused.contains("s3cret"), "{refused}");
    }
}
