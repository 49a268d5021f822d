//! The tests. Each is written once, for sync and async connections.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::sql_types::BigInt;
use diesel_jobs::handler::{Discarded, FailureKind};
use diesel_jobs::prelude::*;
use diesel_jobs::testing::{drain, enqueued, perform};
use diesel_jobs::{NewJob, assert_enqueued, refute_enqueued};
use futures_util::FutureExt as _;

use crate::database;
use crate::jobs::*;

type Notes = diesel::expression::SqlLiteral<BigInt>;

fn notes() -> Notes {
    diesel::dsl::sql::<BigInt>("(select count(*) from note)")
}

/// How many jobs show this progress in the view of a database.
fn shown_progress(database: &str, expected: &str) -> Notes {
    let view = if database.starts_with("pg") { "jobs.job" } else { "jobs_job_view" };
    let shown = "progress_done || ' of ' || progress_total || ': ' || progress_message";
    diesel::dsl::sql::<BigInt>(&format!("(select count(*) from {view} where {shown} = '{expected}')"))
}

/// The message with which an assertion fails.
async fn failure(assertion: impl Future<Output = ()>) -> String {
    let payload = AssertUnwindSafe(assertion).catch_unwind().await.expect_err("the assertion must fail");
    *payload.downcast::<String>().unwrap()
}

/// The tests for a type of connection. The arguments are: how it is opened, what follows calls on it (`.await` or
/// nothing), the trait that runs queries, and a transactional job that it can run.
macro_rules! on {
    ($module:ident, $database:pat = $create:expr, $open:expr, [$($wait:tt)*], $dsl:path, $write:ident, $panic:ident, $other:ident) => {
        mod $module {
            use super::*;

            #[tokio::test]
            async fn what_a_transaction_enqueued_is_asserted() {
                let $database = $create;
                let mut conn = $open;
                let user = 7;
                Charge { order_id: 7 }.enqueue(&mut conn)$($wait)*.unwrap();
                let welcome = SendWelcome::new(user, "v2", vec!["a".to_owned()]);
                welcome.delay(Duration::from_secs(3600)).tags(["vip"]).enqueue(&mut conn)$($wait)*.unwrap();

                assert_enqueued!(conn, Charge { order_id: 7 })$($wait)*;
                assert_enqueued!(conn, Charge { order_id: 3 + 4 }, queue = "default", priority = 0, run_in = 0..1)$($wait)*;
                assert_enqueued!(conn, Charge)$($wait)*;
                assert_enqueued!(conn, SendWelcome { template: "v2", .. }, queue = "mail", count = 1,)$($wait)*;
                assert_enqueued!(
                    conn,
                    SendWelcome { _user_id: user, template: "v2", _tags: ["a"] },
                    run_in = 3500..3700,
                    tags = ["vip"],
                    max_attempts = 3
                )$($wait)*;
                let hour = Duration::from_secs(3500)..=Duration::from_secs(3600);
                assert_enqueued!(conn, SendWelcome { _user_id: 7, .. }, run_in = hour)$($wait)*;
                refute_enqueued!(conn, Charge { order_id: 8 })$($wait)*;
                refute_enqueued!(conn, Snooze)$($wait)*;
                refute_enqueued!(conn, SendWelcome { .. }, queue = "default")$($wait)*;

                let jobs = enqueued::<SendWelcome, _>(&mut conn)$($wait)*.unwrap();
                assert_eq!((jobs.len(), jobs[0].template.as_str(), jobs[0].queue.as_str()), (1, "v2", "mail"));
                assert_eq!((jobs[0].priority, jobs[0].attempt, jobs[0].max_attempts), (5, 0, 3));
            }

            #[tokio::test]
            async fn a_drain_enqueues_the_job_of_a_discarded_one_and_stores_progress() {
                let $database = $create;
                let mut conn = $open;
                let id = Deliver::new("1 Main St").enqueue(&mut conn)$($wait)*.unwrap().id();
                let report = drain(&mut conn).skip_time().only::<Deliver>().run()$($wait)*.unwrap();
                report.assert_discarded::<Deliver>(1);
                assert_enqueued!(conn, AlertOps, queue = "alerts", count = 1)$($wait)*;
                let alerts = enqueued::<AlertOps, _>(&mut conn)$($wait)*.unwrap();
                let Discarded { id: of, kind, attempt, max_attempts, failure, error, .. } = alerts[0].args.discarded.clone();
                assert_eq!((of, &*kind, attempt, max_attempts), (id, "deliver", 2, 2));
                assert_eq!((failure, &*error), (FailureKind::Error, "there is no [redacted]"));
                drain(&mut conn).run()$($wait)*.unwrap().assert_completed::<AlertOps>(1);

                let shown = shown_progress(stringify!($module), "2 of 2: looking for [redacted]");
                use $dsl as _;
                let shown: i64 = diesel::select(shown).get_result(&mut conn)$($wait)*.unwrap();
                assert_eq!(shown, 1);
            }

            #[tokio::test]
            async fn a_failed_assertion_shows_what_is_enqueued_the_nearest_first() {
                let $database = $create;
                let mut conn = $open;
                Charge { order_id: 7 }.enqueue(&mut conn)$($wait)*.unwrap();
                SendWelcome::new(1, "v1", vec![]).enqueue(&mut conn)$($wait)*.unwrap();
                SendWelcome::new(2, "v1", vec![]).queue("slow").enqueue(&mut conn)$($wait)*.unwrap();
                let message = failure(async {
                    assert_enqueued!(conn, SendWelcome { _user_id: 1, template: "v2", .. }, queue = "mail")$($wait)*;
                })
                .await;
                let expected = [
                    "not enqueued: SendWelcome",
                    "of kind `send_welcome` in queue `mail`, due now\n    template: \"v1\", expected \"v2\"\n",
                    "in queue `slow`, due now\n    _user_id: 2, expected 1\n    template: \"v1\", expected \"v2\"\n    \
                     queue: \"slow\", expected \"mail\"\n",
                    "of other kinds: 1 of `charge`",
                ];
                let places: Vec<_> = expected.iter().map(|part| message.find(part)).collect();
                assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{message}");

                let message = failure(async { refute_enqueued!(conn, Charge { order_id: 7 })$($wait)*; }).await;
                assert!(message.contains("enqueued, but should not be: Charge"), "{message}");
                assert!(message.contains("of kind `charge` in queue `default`, due now: as expected"), "{message}");
                let message = failure(async { assert_enqueued!(conn, SendWelcome, count = 3)$($wait)*; }).await;
                assert!(message.contains("enqueued 2 times, expected 3: SendWelcome"), "{message}");
                let message = failure(async { assert_enqueued!(conn, Snooze)$($wait)*; }).await;
                assert!(message.contains("of other kinds: 1 of `charge`, 2 of `send_welcome`"), "{message}");
            }

            #[tokio::test]
            async fn a_drain_runs_jobs_and_what_they_enqueue_inside_the_transaction() {
                use $dsl as _;
                let $database = $create;
                let mut conn = $open;
                let calls = Calls::default();
                Charge { order_id: 7 }.enqueue(&mut conn)$($wait)*.unwrap();
                $write.enqueue(&mut conn)$($wait)*.unwrap();
                let report = drain(&mut conn).state(calls.clone()).skip_time().run()$($wait)*.unwrap();
                report.assert_completed::<Charge>(1);
                report.assert_completed::<$write>(1);
                report.assert_completed::<SendWelcome>(1);
                assert_eq!((report.ran.len(), report.waiting.len(), calls.number()), (4, 0, 1), "{report}");
                let failed = report.ran.iter().find(|ran| ran.failed()).unwrap();
                assert_eq!((failed.attempt, failed.error.as_deref()), (1, Some("not yet")));
                // The writes of the first attempt are rolled back.
                let written: i64 = diesel::select(notes()).get_result(&mut conn)$($wait)*.unwrap();
                assert_eq!(written, 1);
            }

            #[tokio::test]
            async fn skipped_time_is_the_time_of_the_job() {
                let $database = $create;
                let mut conn = $open;
                let times = Times::default();
                ThirdTimeLucky.delay(Duration::from_secs(7200)).enqueue(&mut conn)$($wait)*.unwrap();
                let report = drain(&mut conn).state(times.clone()).run()$($wait)*.unwrap();
                assert!(report.ran.is_empty());
                assert!(report.to_string().contains("waits: it is due in 7"), "{report}");
                let report = drain(&mut conn).state(times.clone()).skip_time().run()$($wait)*.unwrap();
                report.assert_completed::<ThirdTimeLucky>(1);
                assert!(report.to_string().contains("attempt 1: failed, retried in 3600s: attempt 1 fails"), "{report}");
                let times = times.0.lock().unwrap().clone();
                let ahead = (times[0] - chrono::Utc::now()).num_seconds();
                assert!((7100..7300).contains(&ahead), "{times:?}");
                let waits: Vec<i64> = times.windows(2).map(|pair| (pair[1] - pair[0]).num_minutes()).collect();
                assert_eq!(waits, [60, 60], "each backoff passes once");
            }

            #[tokio::test]
            async fn a_drain_cancels_what_has_expired() {
                let $database = $create;
                let mut conn = $open;
                let times = Times::default();
                Expire.expires(Duration::from_millis(1)).enqueue(&mut conn)$($wait)*.unwrap();
                std::thread::sleep(Duration::from_millis(5));
                let report = drain(&mut conn).state(times.clone()).run()$($wait)*.unwrap();
                assert_eq!(report.ran.len(), 1);
                assert_eq!(report.ran[0].error.as_deref(), Some("expired: its first attempt did not start in time"));
                assert!(times.0.lock().unwrap().is_empty(), "it has run");

                Expire.enqueue(&mut conn)$($wait)*.unwrap();
                Expire.delay(Duration::from_secs(3600)).enqueue(&mut conn)$($wait)*.unwrap();
                let report = drain(&mut conn).state(times.clone()).skip_time().run()$($wait)*.unwrap();
                report.assert_completed::<Expire>(2);
                assert_eq!(times.0.lock().unwrap().len(), 3);
            }

            #[tokio::test]
            async fn a_drain_runs_only_what_it_is_asked_for() {
                let $database = $create;
                let mut conn = $open;
                for template in ["broken", "v1", "v2"] {
                    SendWelcome::new(1, template, vec![]).enqueue(&mut conn)$($wait)*.unwrap();
                }
                Snooze.enqueue(&mut conn)$($wait)*.unwrap();
                PanicAtOnce.enqueue(&mut conn)$($wait)*.unwrap();
                NewJob::raw("of_another_program", "{}").enqueue(&mut conn)$($wait)*.unwrap();

                let report = drain(&mut conn).only::<SendWelcome>().fail_fast().run()$($wait)*.unwrap();
                assert_eq!(report.ran.len(), 1, "{report}");
                assert!(report.to_string().contains("waits: an attempt failed before it"), "{report}");
                let report = drain(&mut conn).queue("mai").queue("*-mail").run()$($wait)*.unwrap();
                assert!(report.ran.is_empty(), "{report}");
                let report = drain(&mut conn).queue("ma*l").limit(1).run()$($wait)*.unwrap();
                report.assert_completed::<SendWelcome>(1);
                assert!(report.to_string().contains("waits: the limit of 1 attempts is reached"), "{report}");
                let report = drain(&mut conn).once().skip_time().run()$($wait)*.unwrap();
                assert_eq!(report.ran.len(), 4, "{report}");
                let text = report.to_string();
                for part in [
                    "`snooze` in queue `default`, attempt 1: snoozed for 60s",
                    "`panic_at_once` in queue `default`, attempt 1: failed, discarded: panicked at tests/testing/jobs.rs",
                    "`of_another_program` in queue `default` waits: this program has no handler for its kind",
                    "`snooze` in queue `default` waits: it was enqueued or put back after the drain began, and `once` leaves it",
                ] {
                    assert!(text.contains(part), "{part}\n{text}");
                }
                report.assert_discarded::<PanicAtOnce>(1);
            }

            #[tokio::test]
            async fn a_job_that_cannot_get_what_it_takes_is_refused_before_it_runs() {
                let $database = $create;
                let mut conn = $open;
                NeedsState.enqueue(&mut conn)$($wait)*.unwrap();
                let refused = drain(&mut conn).state(1_u8).run()$($wait)*.unwrap_err().to_string();
                assert!(refused.contains("`needs_state`") && refused.contains("it was given u8"), "{refused}");
                assert!(refused.contains("`drain(&mut conn).state(value).run()`") && !refused.contains("worker"), "{refused}");
                assert_enqueued!(conn, NeedsState)$($wait)*;
                $other.enqueue(&mut conn)$($wait)*.unwrap();
                let refused = drain(&mut conn).only::<$other>().run()$($wait)*.unwrap_err().to_string();
                assert!(refused.contains("this connection"), "{refused}");
                let refused = perform(NeedsState).on(&mut conn)$($wait)*.unwrap_err().to_string();
                assert!(refused.contains("`needs_state`"), "{refused}");
            }

            #[tokio::test]
            async fn a_panic_inside_a_transaction_of_the_handlers_own_rolls_everything_back() {
                use $dsl as _;
                let $database = $create;
                let mut conn = $open;
                $panic.enqueue(&mut conn)$($wait)*.unwrap();
                drain(&mut conn).run()$($wait)*.unwrap().assert_discarded::<$panic>(1);
                $write.enqueue(&mut conn)$($wait)*.unwrap();
                drain(&mut conn).skip_time().run()$($wait)*.unwrap().assert_completed::<$write>(1);
                let written: i64 = diesel::select(notes()).get_result(&mut conn)$($wait)*.unwrap();
                assert_eq!(written, 1, "what the panic left is rolled back, and nothing else");
            }

            #[tokio::test]
            async fn what_a_handler_returns_is_in_the_report_and_read_with_its_type() {
                let $database = $create;
                let mut conn = $open;
                let mut ids = Vec::new();
                for pages in [0, 1, 2, 300] {
                    let id = BuildReport { pages }.enqueue(&mut conn)$($wait)*.unwrap();
                    let early = BuildReport::output(&mut conn, id)$($wait)*.unwrap();
                    assert_eq!(early, None, "it has not run");
                    ids.push(id);
                }
                let report = drain(&mut conn).skip_time().run()$($wait)*.unwrap();
                report.assert_completed::<BuildReport>(4);
                assert_eq!(BuildReport::output(&mut conn, ids[0])$($wait)*.unwrap(), None::<Option<Report>>);
                for (id, pages) in ids.iter().zip([0, 1, 2, 300]).skip(1).take(2) {
                    let expected = Report { title: "x".repeat(pages * 1000), pages };
                    let ran = report.ran.iter().rev().find(|ran| ran.id == **id).unwrap();
                    assert_eq!(ran.output.as_ref().unwrap().read::<Report>().unwrap().unwrap(), expected);
                    let stored: Report = diesel_jobs::output(&mut conn, *id)$($wait)*.unwrap().unwrap();
                    assert_eq!(stored, expected);
                    let stored = BuildReport::output(&mut conn, *id)$($wait)*.unwrap();
                    assert_eq!(stored, Some(Some(expected)));
                    let wrong = diesel_jobs::output::<u8, _, _>(&mut conn, *id)$($wait)*.unwrap_err();
                    assert!(wrong.to_string().contains("does not fit its type"), "{wrong}");
                }
                let refused = BuildReport::output(&mut conn, ids[3])$($wait)*.unwrap_err().to_string();
                assert!(refused.contains("takes 300024 bytes of JSON, at most 262144"), "{refused}");
                assert!(report.to_string().contains("completed, the output takes 300024 bytes"), "{report}");
                let unknown = diesel_jobs::output::<u8, _, _>(&mut conn, diesel_jobs::JobId(1 << 40))$($wait)*.unwrap_err();
                assert!(unknown.to_string().starts_with("there is no job "), "{unknown}");
                let performed = perform(BuildReport { pages: 2 }).on(&mut conn)$($wait)*.unwrap();
                let Outcome::CompleteWith(output) = performed else { panic!("{performed:?}") };
                assert_eq!(output.read::<Report>().unwrap().unwrap().pages, 2);
            }

            #[tokio::test]
            async fn one_handler_is_performed_without_a_stored_job() {
                use $dsl as _;
                let $database = $create;
                let mut conn = $open;
                let calls = Calls::default();
                let done = perform(Charge { order_id: 7 }).state(calls.clone()).on(&mut conn)$($wait)*.unwrap();
                assert_eq!((done, calls.number()), (Outcome::Complete, 1));
                let failed = perform(Charge { order_id: -1 }).state(calls.clone()).on(&mut conn)$($wait)*.unwrap_err();
                assert!(failed.to_string().contains("panicked at tests/testing/jobs.rs"), "{failed}");
                let (times, tick) = (Times::default(), "2026-03-30T00:00:00Z".parse::<DateTime<Utc>>().unwrap());
                let late = tick + Duration::from_secs(60);
                perform(TellTimes).state(times.clone()).run_at(tick).now(late).on(&mut conn)$($wait)*.unwrap();
                perform(TellTimes).state(times.clone()).now(late).on(&mut conn)$($wait)*.unwrap();
                assert_eq!(*times.0.lock().unwrap(), [tick, late, late, late]);
                perform($write).on(&mut conn)$($wait)*.unwrap_err();
                let written: i64 = diesel::select(notes()).get_result(&mut conn)$($wait)*.unwrap();
                assert_eq!(written, 0, "the savepoint is rolled back");
                perform($write).attempt(2).on(&mut conn)$($wait)*.unwrap();
                let written: i64 = diesel::select(notes()).get_result(&mut conn)$($wait)*.unwrap();
                assert_eq!(written, 1);
                refute_enqueued!(conn, $write)$($wait)*;
                assert_enqueued!(conn, SendWelcome { template: "after", .. }, count = 1)$($wait)*;
            }
        }
    };
}

on!(
    pg,
    database = database::Database::create(),
    database.pg(),
    [],
    diesel::RunQueryDsl,
    WritePg,
    PanicInsidePg,
    WriteAsync
);
on!(
    pg_async,
    database = database::Database::create(),
    database.pg_async().await,
    [.await],
    diesel_async::RunQueryDsl,
    WriteAsync,
    PanicInsideAsync,
    WritePg
);
on!(sqlite, _ = (), database::sqlite(), [], diesel::RunQueryDsl, WriteSqlite, PanicInsideSqlite, WriteAsync);
on!(sqlite_async, _ = (), database::sqlite_async().await, [.await], diesel_async::RunQueryDsl, WriteSqlite, PanicInsideSqlite, WriteAsync);

#[test]
fn a_job_of_a_later_version_is_left() {
    use diesel::connection::SimpleConnection as _;
    let mut conn = database::sqlite();
    Snooze.enqueue(&mut conn).unwrap();
    conn.batch_execute("update jobs_job set flags = 1 << 20").unwrap();
    let report = drain(&mut conn).run().unwrap();
    assert!(report.ran.is_empty() && report.waiting[0].why == "it uses a feature of a later version", "{report}");
}

/// As a worker does it.
#[test]
fn a_backoff_that_panics_retries_and_a_job_that_completes_itself_twice_is_refused() {
    let mut conn = database::sqlite();
    FailWithABrokenBackoff.enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).run().unwrap();
    assert!(report.to_string().contains("attempt 1: failed, retried in 60s: panicked at"), "{report}");
    CompleteTwice.enqueue(&mut conn).unwrap();
    let refused = drain(&mut conn).run().unwrap_err().to_string();
    assert!(refused.contains("`complete_twice` called complete_in"), "{refused}");
}

#[test]
fn failure_kinds_of_panics_are_stored() {
    let mut conn = database::sqlite();
    PanicAtOnce.enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).run().unwrap();
    let diesel_jobs_core::Transition::Discard { failure, .. } = &report.ran[0].transition else { panic!("{report}") };
    assert_eq!(failure.kind, FailureKind::Panic);
}

#[test]
fn a_secret_is_in_no_report_no_error_and_no_message() {
    let mut conn = database::sqlite();
    let job = LogIn::new("ada", "hunter2");
    job.clone().enqueue(&mut conn).unwrap();
    let message = std::panic::catch_unwind(AssertUnwindSafe(|| {
        assert_enqueued!(conn, LogIn { user: "bob", password: "other" });
    }));
    let message = *message.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("password: \"[redacted]\", expected \"other\""), "{message}");
    assert_enqueued!(conn, LogIn { password: "hunter2", .. });
    let report = drain(&mut conn).run().unwrap();
    assert!(report.to_string().contains("ada is refused with \"[redacted]\" (cause: [redacted])"), "{report}");
    let stored = diesel::select(diesel::dsl::sql::<diesel::sql_types::Text>("(select message from jobs_job_error)"));
    let stored: String = diesel::RunQueryDsl::get_result(stored, &mut conn).unwrap();
    for text in [message, format!("{report:?}"), stored, format!("{job:?}")] {
        assert!(text.contains("[redacted]") && !text.contains("hunter2"), "{text}");
    }
}

/// What a handler changes in other ways than by enqueueing is seen before the drain ends.
#[test]
fn a_job_that_a_handler_brings_back_runs() {
    let mut conn = database::sqlite();
    PanicAtOnce.enqueue(&mut conn).unwrap();
    drain(&mut conn).run().unwrap().assert_discarded::<PanicAtOnce>(1);
    BringBack.enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).run().unwrap();
    assert_eq!(report.ran.iter().map(|ran| ran.kind.as_str()).collect::<Vec<_>>(), ["bring_back", "panic_at_once"]);
}
