//! Wrong URLs, and the messages of the worker and of libpq about them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use diesel_jobs::{Database, JobState, job};
use support::{Db, LIMIT, Process};

use super::{PASSWORD, STATE, assert_silent, with_password};

/// Starts a server that asks for the password, and refuses it. The thread returns what it received.
fn a_strict_server() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 1024];
        let mut read = |stream: &mut std::net::TcpStream| {
            let length = stream.read(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        // The request for TLS, then the start-up packet.
        read(&mut stream);
        stream.write_all(b"N").unwrap();
        read(&mut stream);
        stream.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
        let password = read(&mut stream);
        let fields = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user \"me\"\0\0";
        stream.write_all(b"E").unwrap();
        stream.write_all(&(u32::try_from(fields.len()).unwrap() + 4).to_be_bytes()).unwrap();
        stream.write_all(fields).unwrap();
        password
    });
    (address, server)
}

/// Returns what a worker that cannot start writes.
fn refusal(url: &str) -> String {
    let worker = Process::worker_with(
        env!("CARGO_BIN_EXE_secrets-worker"),
        url,
        ["run"],
        &[("SECRET", STATE), ("RUST_LOG", "trace")],
    );
    let ended = worker.ended(LIMIT);
    assert!([1, 2, 3, 6].contains(&ended.code), "{}: {}", ended.code, ended.stderr);
    assert!(ended.stderr.contains("error: "), "{}", ended.stderr);
    assert_silent(url, &ended.stderr);
    ended.stderr
}

async fn no_refusal_of_a_url_tells_its_password(db: Db) {
    let (address, server) = a_strict_server();
    let said = refusal(&format!("postgres://me:{PASSWORD}@{address}/app"));
    assert!(said.contains("password authentication failed"), "{said}");
    assert!(server.join().unwrap().contains(PASSWORD), "it was sent");

    let place = with_password(&db);
    let name = db.url().rsplit_once('/').unwrap().1.split('?').next().unwrap();
    for (url, words) in [
        (place.replace(name, "no_such_database"), "create it first"),
        (place.replace("tester:", "no_such_role:"), "no_such_role"),
        (place.clone() + "&sslpassword=" + PASSWORD, "sslpassword"),
        (place.clone() + "&sslmode=verify-full&sslrootcert=/no/such.pem", "/no/such.pem"),
        (place.clone() + "&options=-c%20work_mem%3Dnone", "work_mem"),
        (format!("postgres://me:{PASSWORD}@127.0.0.1:1/app"), "refused"),
        (format!("postgres://me:{PASSWORD}@no-such-host.invalid/app"), "unavailable"),
        (format!("postgres://me:{PASSWORD}@localhost:port/app"), "not a valid PostgreSQL URL"),
        (format!("postgres://me:{PASSWORD}@localhost/app?sslmode=maybe"), "maybe"),
        (format!("postgres://localhost/app?sslmode=maybe&password={PASSWORD}"), "maybe"),
        // Characters that a password may contain only percent-encoded.
        (format!("postgres://me:x?{PASSWORD}@localhost/app"), "percent-encoded"),
        (format!("postgres://me:x?{PASSWORD}=y@localhost/app"), "percent-encoded"),
        (format!("postgres://me:x?sslmode={PASSWORD}@localhost/app"), "percent-encoded"),
        (format!("postgres://me:x/{PASSWORD}@127.0.0.1:1/app"), "refused"),
        (format!("postgres://me:x#{PASSWORD}@127.0.0.1:1/app"), "refused"),
        (format!("postgres://me:x%zz{PASSWORD}@127.0.0.1:1/app"), "refused"),
        (format!("postgres://me:x@{PASSWORD}@127.0.0.1:1/app"), "`@` as %40"),
        (format!("postgres://me:{PASSWORD}/app"), "not a valid PostgreSQL URL"),
        // Texts that are no URL.
        (format!("host=localhost user=me password={PASSWORD}"), "without a scheme"),
        (format!("host=localhost password={PASSWORD}:x"), "without a scheme"),
        (format!("{PASSWORD}:x@localhost/app"), "without a scheme"),
        (PASSWORD.to_owned(), "without a scheme"),
        (format!("mysql://me:{PASSWORD}@localhost/app"), "mysql"),
    ] {
        let said = refusal(&url);
        assert!(said.contains(words), "{url}: {said}");
    }
    let typed = format!("postgres://me:{PASSWORD}@localhost/app");
    for args in [vec![&*typed], vec!["run", &*typed], vec!["--log", &*typed], vec!["show", &*typed]] {
        let ended = Process::worker(env!("CARGO_BIN_EXE_secrets-worker"), "sqlite:", &args).ended(LIMIT);
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.stderr);
        assert_silent("the command line", &ended.stderr);
    }
}

/// libpq quotes what it cannot read. So the password is encoded before libpq gets it.
async fn a_blocking_handlers_connection_gets_the_password_in_a_form_that_libpq_can_read(db: Db) {
    #[job(max_attempts = 1)]
    fn look(conn: &mut diesel::PgConnection) -> diesel::QueryResult<()> {
        diesel::RunQueryDsl::execute(diesel::sql_query("select 1"), conn).map(drop)
    }
    for password in ["50%zz", "a/b", "a%2Fb", "a?b", "%41", "a b", "a%00"].map(|part| format!("{part}{PASSWORD}")) {
        let url = with_password(&db).replace(PASSWORD, &password.replace('?', "%3F"));
        let database = Database::open(&url, 1).await.unwrap();
        let id = db.enqueue(Look {}).await;
        let worker = diesel_jobs::Worker::builder(database.storage).registry(support::registry![Look]).build().unwrap();
        support::within(LIMIT, &password, worker.run_until_empty()).await.unwrap();
        let (job, failures) = db.show(id).await;
        assert_silent(&password, &format!("{failures:?}"));
        assert!(job.state == JobState::Completed || password.contains("%00"), "{password}: {failures:?}");
    }
}

support::on_postgres! {
    no_refusal_of_a_url_tells_its_password,
    a_blocking_handlers_connection_gets_the_password_in_a_form_that_libpq_can_read,
}
