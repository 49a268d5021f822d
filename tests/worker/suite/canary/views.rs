//! What Rust code can print of values with secrets: `Debug` output, errors, and statements that Diesel shows.

use std::sync::Arc;

use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::handler::TestContext;
use diesel_jobs::{Database, Job as _, JobContext, NewJob, job};
use diesel_jobs_core::ClaimedJob;
use support::{Conn, Db};

use super::{ARGUMENT, STATE, assert_silent, with_password};

#[job]
async fn whisper(secret: String, more: Vec<String>) {
    drop((secret, more));
}

async fn no_debug_view_and_no_error_tells_a_secret(db: Db) {
    let whisper = || Whisper { secret: ARGUMENT.to_owned(), more: Vec::new() };
    let too_large = Whisper { secret: ARGUMENT.repeat(30_000), ..whisper() };
    let invalid = too_large.into_new_job().unwrap_err();
    let mut texts = vec![format!("{invalid} {invalid:?}"), format!("{:?}", whisper().priority(3))];
    texts.push(format!("{:?} {:?}", whisper().into_new_job().unwrap(), whisper().tags([""]).into_new_job().err()));
    let context: JobContext = TestContext::new("whisper").build();
    let job = ClaimedJob { args: format!(r#"{{"secret":["{ARGUMENT}"]}}"#).into_bytes(), ..context.claimed().clone() };
    let context = JobContext::new(job.clone(), Default::default(), Arc::default());
    texts.push(format!("{job:?} {context:?} {:?}", context.decode::<Whisper>().err()));
    let open = if db.is_postgres() { Database::open(&with_password(&db), 1).await.unwrap() } else { db.again().await };
    texts.push(format!(
        "{open:?} {:?}",
        diesel_jobs::Worker::builder(open.storage.clone())
            .state(STATE)
            .registry(support::registry![Whisper])
            .build()
            .map(|worker| worker.handle())
    ));

    // Arguments that are no JSON, which the database refuses.
    let mut conn = db.conn().await;
    let refused = NewJob::raw("whisper", format!("{ARGUMENT} {ARGUMENT}"));
    match &mut conn {
        Conn::Postgres(conn) => {
            let one = diesel_jobs::Enqueue::enqueue(refused.clone(), &mut **conn).await.unwrap_err();
            let many = diesel_jobs::enqueue_all(&mut **conn, [refused]).await.unwrap_err();
            let sql = format!("select jobs.enqueue('whisper', to_json(repeat('{ARGUMENT}', 30000)))");
            let function = diesel_async::SimpleAsyncConnection::batch_execute(&mut **conn, &sql).await.unwrap_err();
            texts.push(format!("{one} {one:?} {many} {many:?} {function} {function:?}"));
        }
        Conn::Sqlite(conn) => {
            diesel_jobs::Enqueue::enqueue(refused, &mut **conn).unwrap();
            let listed = open.operator.list_all(&diesel_jobs::operator::JobFilter::default(), 9).await.unwrap();
            assert_eq!(listed.len(), 1);
        }
    }
    for text in texts {
        assert_silent("a view", &text);
    }
}

/// Diesel can report each statement with its binds, and applications log that.
async fn diesels_instrumentation_gets_no_arguments(db: Db) {
    use diesel::connection::InstrumentationEvent;
    let (sender, receiver) = std::sync::mpsc::channel();
    let report = move |event: InstrumentationEvent<'_>| {
        let text = match &event {
            InstrumentationEvent::StartQuery { query, .. } => format!("{query} {event:?}"),
            _ => format!("{event:?}"),
        };
        drop(sender.send(text));
    };
    let job = || Whisper { secret: ARGUMENT.to_owned(), more: Vec::new() };
    match &mut db.conn().await {
        Conn::Postgres(conn) => {
            diesel_async::AsyncConnection::set_instrumentation(&mut **conn, report);
            diesel_jobs::Enqueue::enqueue(job(), &mut **conn).await.unwrap();
            diesel_jobs::enqueue_all(&mut **conn, [job(), job()]).await.unwrap();
        }
        Conn::Sqlite(conn) => {
            diesel::Connection::set_instrumentation(&mut **conn, report);
            diesel_jobs::Enqueue::enqueue(job(), &mut **conn).unwrap();
            diesel_jobs::enqueue_all(&mut **conn, [job(), job()]).unwrap();
        }
    }
    let events: Vec<String> = receiver.try_iter().collect();
    assert!(events.iter().any(|text| text.contains("insert into") && text.contains("bytes of JSON")), "{events:?}");
    assert_silent("Diesel's instrumentation", &events.join("\n"));
}

support::on_each_database! {
    no_debug_view_and_no_error_tells_a_secret,
    diesels_instrumentation_gets_no_arguments,
}
