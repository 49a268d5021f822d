//! TLS to PostgreSQL, as the URL asks for it. The server reports whether the worker's connections are encrypted.

use diesel_jobs::{Database, Worker, job};
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

support::on_postgres! {
    require_and_verify_full_encrypt_every_line,
    disable_encrypts_none,
    a_wrong_authority_is_refused,
    a_certificate_for_another_name_is_refused_by_verify_full_only,
}
