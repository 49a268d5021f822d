//! Mistakes of users: each has an error message that names it and says what to do. No message repeats a secret.

use std::future::Future as _;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::worker::Registry;
use diesel_jobs::{Database, Job as _, JobError, JobState, NewJob, State, StorageError, job};
use support::{Db, registry};

#[job]
async fn fine() {}

#[job]
async fn echo(text: String) -> Result<(), JobError> {
    Err(JobError::msg(text).fatal())
}

mod elsewhere {
    #[diesel_jobs::job(name = "Another", kind = "fine")]
    pub(super) async fn another() {}
}

/// Returns the error with which a worker on this URL refuses to start.
async fn start_up_error(url: &str) -> String {
    let database = match Database::open(url, 1).await {
        Ok(database) => database,
        Err(error) => return error.to_string(),
    };
    let worker = diesel_jobs::Worker::builder(database.storage).registry(registry![Fine]).build().unwrap();
    let ended = support::within(support::LIMIT, "the refusal", worker.run_until(std::future::pending())).await;
    ended.unwrap_err().to_string()
}

async fn wrong_urls_are_refused_and_no_message_has_the_password(db: Db) {
    let (login, rest) = db.url().split_once('@').unwrap();
    let (address, _) = rest.split_once('?').unwrap();
    let (host, _) = address.split_once('/').unwrap();
    for (url, reason) in [
        // No server listens there.
        ("postgres://me:s3cret@127.0.0.1:1/app".to_owned(), "unavailable"),
        ("postgres://me:s3cret@no-such-host.invalid/app".to_owned(), "unavailable"),
        (format!("{login}:s3cret@{host}/no_such_database"), "create it first"),
        (format!("postgres://no_such_role:s3cret@{address}"), "no_such_role"),
        ("postgres://me:s3cret@host:notaport/app".to_owned(), "not a valid PostgreSQL URL"),
        ("postgres://me:s3cret@localhost/app?sslmode=maybe".to_owned(), "sslmode=maybe"),
        ("postgres://me:s3cret@localhost/app?sslmod=require".to_owned(), "unknown parameter \"sslmod\""),
        ("mysql://me:s3cret@localhost/app".to_owned(), "mysql"),
        ("s3cret".to_owned(), "without a scheme"),
    ] {
        let error = start_up_error(&url).await;
        assert!(error.contains(reason), "{reason:?} is missing: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

async fn a_missing_an_older_and_a_newer_schema_stop_the_worker_with_one_line(db: Db) {
    let empty = Db::empty_postgres().await;
    let error = start_up_error(empty.url()).await;
    assert!(error.contains("missing") && error.contains("worker migrate"), "{error}");

    db.execute("insert into jobs.schema_migration (version, name) values (9999, 'of_tomorrow')").await;
    let error = start_up_error(db.url()).await;
    assert!(error.contains("9999") && error.contains("deploy the newer program"), "{error}");
    assert!(!error.contains('\n'));

    // As a database from before the first version of this program.
    db.execute(
        "delete from jobs.schema_migration; insert into jobs.schema_migration (version, name) values (0, 'of_old')",
    )
    .await;
    let error = start_up_error(db.url()).await;
    assert!(error.contains("version 0") && error.contains("worker migrate"), "{error}");
}

async fn an_unknown_queue_is_served_and_reported(db: Db) {
    let worker = db.worker(registry![Fine]).queue("defualt", 4).queue("default", 4).build().unwrap();
    let [unknown] = worker.unknown_queues() else { panic!("{:?}", worker.unknown_queues()) };
    assert_eq!((&*unknown.name, unknown.near.as_deref()), ("defualt", Some("default")));
    assert!(unknown.hint().contains("did you mean `default`?"), "{}", unknown.hint());

    let id = db.enqueue(Fine {}.queue("adhoc")).await;
    let worker = db.worker(registry![Fine]).queue("adhoc", 4).build().unwrap();
    assert_eq!(worker.run_until_empty().await.unwrap().completed, 1);
    assert_eq!(db.record(id).await.state, JobState::Completed);

    let worker = db.worker(registry![Fine]).declare_queue("adhoc").queue("adhoc", 4).build().unwrap();
    assert!(worker.unknown_queues().is_empty());
}

async fn a_worker_without_a_runtime_says_so_and_panics_nowhere(db: Db) {
    let worker = db.worker(registry![Fine]).build().unwrap();
    let poll = move || {
        let mut running = std::pin::pin!(worker.run_until_empty().into_future());
        match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended.unwrap_err().to_string(),
            Poll::Pending => "it runs".to_owned(),
        }
    };
    let error = std::thread::spawn(poll).join().unwrap();
    assert!(error.contains("no tokio runtime") && error.contains("#[tokio::main]"), "{error}");
}

#[derive(Clone)]
struct Mailer;

#[job]
async fn mail(State(mailer): State<Mailer>) {
    let Mailer = mailer;
}

async fn a_state_given_as_another_type_is_named_with_what_to_write(db: Db) {
    let error = |builder: diesel_jobs::WorkerBuilder| builder.build().unwrap_err().to_string();
    let worker = || db.worker(registry![Mail]);
    let said = error(worker().state(Arc::new(Mailer)).state(7_u8));
    for part in
        ["`mail`", "bad_input.rs:", "State<", "it was given alloc::sync::Arc<", "u8", "take State<Arc<Mailer>> instead"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = error(worker().state(&Mailer));
    assert!(said.contains("take State<&Mailer> instead, or give the Mailer itself"), "{said}");
    assert!(error(worker()).contains("it was given no state at all"), "{}", error(worker()));
    worker().state(Mailer).build().unwrap();
}

async fn a_kind_registered_twice_is_refused_with_both_places(db: Db) {
    let error = db.worker(Registry::new().with::<Fine>().with::<elsewhere::Another>()).build().unwrap_err().to_string();
    for part in ["`fine`", "Fine", "Another", "registered twice", "kind = "] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(error.matches("bad_input.rs:").count(), 2, "{error}");
}

async fn a_worker_without_jobs_is_refused_and_says_what_to_write(db: Db) {
    let error = db.worker(Registry::new()).build().unwrap_err().to_string();
    assert!(error.contains("use my_app as _;"), "{error}");
}

async fn settings_out_of_bounds_are_refused(db: Db) {
    let worker = || db.worker(registry![Fine]);
    let zero = std::time::Duration::ZERO;
    for (builder, word) in [
        (worker().lease(zero), "lease"),
        (worker().poll_interval(zero), "poll"),
        (worker().max_crashes(0), "max_crashes"),
        (worker().queue("default", 0), "from 1 to 100000 slots"),
        (worker().slots(0), "from 1 to 100000 slots"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

async fn nul_goes_through_arguments_and_into_the_stored_error(db: Db) {
    let id = db.enqueue(Echo { text: "before \0 after".to_owned() }).await;
    db.work(registry![Echo]).await;
    let (job, failures) = db.show(id).await;
    assert_eq!(job.state, JobState::Discarded);
    assert_eq!(failures[0].message, "before \u{2400} after");
}

async fn an_endless_error_message_is_cut(db: Db) {
    let id = db.enqueue(Echo { text: "é".repeat(100_000) }).await;
    db.work(registry![Echo]).await;
    let message = db.failures(id).await.remove(0).message;
    assert!(message.len() <= 8 * 1024 && message.ends_with("(cut)"), "{} bytes", message.len());
}

async fn impossible_jobs_are_refused_by_name_and_without_their_arguments(db: Db) {
    let large = Echo { text: "s3cret".repeat(50_000) };
    for (job, parts) in [
        (large.into_new_job(), ["`echo`", "262144"]),
        (Fine {}.max_attempts(0).into_new_job(), ["`fine`", "max_attempts"]),
        (Fine {}.max_attempts(40_000).into_new_job(), ["`fine`", "max_attempts"]),
        (Fine {}.queue("").into_new_job(), ["`fine`", "queue"]),
        (Fine {}.queue("q".repeat(201)).into_new_job(), ["`fine`", "200 bytes"]),
        (Fine {}.queue("a\0b").into_new_job(), ["`fine`", "NUL"]),
        (Fine {}.tags(["a\0b"]).into_new_job(), ["`fine`", "NUL"]),
        (Fine {}.tags((0..33).map(|n| n.to_string())).into_new_job(), ["`fine`", "33 tags"]),
        (NewJob::raw("", "{}").into_new_job(), ["kind", "is empty"]),
        (Fine {}.delay(std::time::Duration::MAX).into_new_job(), ["`fine`", "hundred years"]),
    ] {
        let error = job.unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
        assert!(!error.contains("s3cret") && error.len() < 600, "{error}");
    }
    assert_eq!(db.number("select count(*) as number from jobs.job").await, 0);
}

async fn hostile_names_are_only_names(db: Db) {
    for name in ["'; drop table jobs.ready; --", "\"", "\\", "a,b}", "{}", "%s", "$1", " ", "名前", "\u{202e}"] {
        let id = db.enqueue(Fine {}.queue(name).tags([name])).await;
        let worker = db.worker(registry![Fine]).declare_queue(name).queue(name, 1).build().unwrap();
        assert_eq!(worker.run_until_empty().await.unwrap().completed, 1, "{name:?}");
        let job = db.record(id).await;
        assert_eq!((&*job.queue, &job.tags[..], job.state), (name, &[name.to_owned()][..], JobState::Completed));
    }
}

#[test]
fn a_debug_view_of_a_database_or_a_job_shows_no_secret() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = runtime.block_on(Database::open("postgres://me:s3cret@localhost/app", 1)).unwrap();
    let job = Echo { text: "s3cret".to_owned() }.into_new_job().unwrap();
    assert!(!format!("{database:?} {job:?}").contains("s3cret"));
    let error = StorageError::Config("x".to_owned());
    assert!(!error.is_transient());
}

support::on_postgres! {
    wrong_urls_are_refused_and_no_message_has_the_password,
    a_missing_an_older_and_a_newer_schema_stop_the_worker_with_one_line,
    an_unknown_queue_is_served_and_reported,
    a_worker_without_a_runtime_says_so_and_panics_nowhere,
    a_state_given_as_another_type_is_named_with_what_to_write,
    a_kind_registered_twice_is_refused_with_both_places,
    a_worker_without_jobs_is_refused_and_says_what_to_write,
    settings_out_of_bounds_are_refused,
    nul_goes_through_arguments_and_into_the_stored_error,
    an_endless_error_message_is_cut,
    impossible_jobs_are_refused_by_name_and_without_their_arguments,
    hostile_names_are_only_names,
}

support::on_sqlite! {
    nul_goes_through_arguments_and_into_the_stored_error,
    an_endless_error_message_is_cut,
    hostile_names_are_only_names,
}
