//! TLS to PostgreSQL, as the URL asks for it. The server reports whether the worker's connections are encrypted.

use std::path::{Path, PathBuf};

use diesel_jobs::{Database, JobError, Worker, job};
use support::{Db, registry};

#[job]
async fn fine() {}

fn authority() -> String {
    std::env::var("JOBS_TEST_CA").expect("JOBS_TEST_CA is set by `cargo xtask test`")
}

/// The database's URL with these parameters, for the host `localhost`, because certificates contain names of hosts.
fn with(db: &Db, parameters: &str) -> String {
    format!("{}&{parameters}", db.url().replace("@127.0.0.1:", "@localhost:"))
}

/// Runs a worker on the URL. Returns how many of its connections are encrypted, and how many are not, as the server
/// reports.
async fn lines(db: &Db, url: &str) -> Result<(i64, i64), String> {
    let database = Database::open(url, 2).await.map_err(|error| error.to_string())?;
    let worker = Worker::builder(database.storage).registry(registry![Fine]).build().unwrap();
    let handle = worker.handle();
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    let id = db.enqueue(Fine {}).await;
    let mut conn = db.conn().await;
    let count = |encrypted: &str| {
        format!(
            "select count(*) as number from pg_stat_ssl join pg_stat_activity using (pid)
             where datname = current_database() and application_name = 'tls test' and {encrypted}"
        )
    };
    let mut seen = (0, 0);
    // Claims, the heartbeat and the listener use at least three connections, unless the worker has ended.
    while !running.is_finished() && seen.0 + seen.1 < 3 {
        seen = (conn.number(&count("ssl")).await, conn.number(&count("not ssl")).await);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    if !running.is_finished() {
        db.await_state(id, diesel_jobs::JobState::Completed).await;
    }
    handle.shutdown();
    running.await.unwrap().map(|()| seen).map_err(|error| error.to_string())
}

async fn require_and_verify_full_encrypt_every_line(db: Db) {
    for mode in ["sslmode=require".to_owned(), format!("sslmode=verify-full&sslrootcert={}", authority())] {
        let (encrypted, plain) = lines(&db, &with(&db, &format!("{mode}&application_name=tls%20test"))).await.unwrap();
        assert!(encrypted >= 3 && plain == 0, "{mode}: {encrypted} encrypted, {plain} not");
    }
}

async fn disable_encrypts_none(db: Db) {
    let (encrypted, plain) = lines(&db, &with(&db, "sslmode=disable&application_name=tls%20test")).await.unwrap();
    assert!(encrypted == 0 && plain >= 3, "{encrypted} encrypted, {plain} not");
}

/// The system's root certificates do not contain the tests' authority.
async fn a_wrong_authority_is_refused(db: Db) {
    for mode in ["sslmode=verify-full", "sslmode=verify-ca"] {
        let error = lines(&db, &with(&db, mode)).await.unwrap_err();
        assert!(error.contains("certificate"), "{mode}: {error}");
    }
}

/// The certificate is for `localhost`, and not for the host in this URL.
async fn a_certificate_for_another_name_is_refused_by_verify_full_only(db: Db) {
    let url = |mode: &str| {
        let url = db.url().replace("@127.0.0.1:", "@db.example.org:");
        format!("{url}&hostaddr=127.0.0.1&sslmode={mode}&sslrootcert={}&application_name=tls%20test", authority())
    };
    let error = lines(&db, &url("verify-full")).await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    let (encrypted, plain) = lines(&db, &url("verify-ca")).await.unwrap();
    assert!(encrypted >= 3 && plain == 0);
}

/// The files of the client's certificate and its key.
fn client() -> [PathBuf; 2] {
    ["client.pem", "client.key"].map(|name| Path::new(&authority()).with_file_name(name))
}

/// The parameters for these files.
fn identity([certificate, key]: &[PathBuf; 2]) -> String {
    format!("sslcert={}&sslkey={}", certificate.display(), key.display())
}

/// Its connection is libpq's.
#[job(max_attempts = 1)]
fn certified(conn: &mut diesel::PgConnection) -> Result<(), JobError> {
    use diesel::prelude::*;
    let query = "(select coalesce(client_dn, 'nobody') from pg_stat_ssl where pid = pg_backend_pid())";
    let name: String =
        diesel::select(diesel::dsl::sql::<diesel::sql_types::Text>(query)).get_result(conn).map_err(JobError::new)?;
    if name == "/CN=certified" { Ok(()) } else { Err(JobError::msg(name)) }
}

async fn every_line_presents_the_clients_certificate(db: Db) {
    let url = with(&db, &format!("sslmode=require&application_name=tls%20test&{}", identity(&client())));
    let database = Database::open(&url, 2).await.unwrap();
    let worker = Worker::builder(database.storage).registry(registry![Certified]).build().unwrap();
    let handle = worker.handle();
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    let id = db.enqueue(Certified {}).await;
    db.await_state(id, diesel_jobs::JobState::Completed).await;
    let mut conn = db.conn().await;
    let others = "select count(*) as number from pg_stat_ssl join pg_stat_activity using (pid)
                  where datname = current_database() and application_name like 'tls test%' and client_dn is distinct from '/CN=certified'";
    assert_eq!(conn.number(others).await, 0);
    handle.shutdown();
    running.await.unwrap().unwrap();
}

/// They are renewed while a worker runs.
async fn certificates_are_read_for_each_connection(db: Db) {
    let dir = tempfile::tempdir().unwrap();
    let files = ["client.pem", "client.key"].map(|name| dir.path().join(name));
    let roots = dir.path().join("ca.pem");
    let renew = || {
        std::fs::copy(authority(), &roots).unwrap();
        for (from, to) in client().iter().zip(&files) {
            std::fs::copy(from, to).unwrap();
        }
    };
    renew();
    let verified = format!("sslmode=verify-full&sslrootcert={}&{}", roots.display(), identity(&files));
    let database = Database::open(&with(&db, &verified), 1).await.unwrap();
    database.operator.stats().await.unwrap();
    let mut conn = db.conn().await;
    let close = "select count(pg_terminate_backend(pid, 60000)) as number from pg_stat_activity
                 where datname = current_database() and pid <> pg_backend_pid()";
    for (file, parameter) in [(&files[0], "sslcert="), (&files[1], "sslkey="), (&roots, "sslrootcert=")] {
        std::fs::write(file, "nothing").unwrap();
        conn.number(close).await;
        // The first statement may find the closed connection in the pool.
        let _ = database.operator.stats().await;
        let error = database.operator.stats().await.unwrap_err().to_string();
        assert!(error.contains(parameter), "{error}");
        renew();
        database.operator.stats().await.unwrap();
    }
}

async fn certificates_that_cannot_be_used_are_refused_with_their_file(db: Db) {
    let [certificate, key] = client();
    let missing = PathBuf::from("/no/such.pem");
    for (files, part) in [
        ([missing.clone(), key.clone()], "sslcert=/no/such.pem: No such file"),
        ([certificate.clone(), missing], "sslkey=/no/such.pem: No such file"),
        ([key.clone(), key.clone()], "the file holds no certificate"),
        ([certificate.clone(), certificate.clone()], "the file holds no key"),
    ] {
        let error = Database::open(&with(&db, &identity(&files)), 1).await.err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
    // With this, it is not presented.
    let never = format!("sslmode=require&sslcertmode=disable&application_name=tls%20test&{}", identity(&client()));
    assert!(lines(&db, &with(&db, &never)).await.unwrap().0 >= 3);
}

support::on_postgres! {
    every_line_presents_the_clients_certificate,
    certificates_are_read_for_each_connection,
    certificates_that_cannot_be_used_are_refused_with_their_file,
    require_and_verify_full_encrypt_every_line,
    disable_encrypts_none,
    a_wrong_authority_is_refused,
    a_certificate_for_another_name_is_refused_by_verify_full_only,
}
