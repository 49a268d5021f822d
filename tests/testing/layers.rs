//! Layers in `drain` and `perform`, on every type of connection.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel::prelude::*;
use diesel_async::AsyncPgConnection;
use diesel_jobs::handler::{Layer, States, TypeKey};
use diesel_jobs::prelude::*;
use diesel_jobs::testing::{crash_everywhere, drain, perform};

use crate::database;

/// What was called.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The layer adds it.
#[derive(Clone)]
struct Tenant(&'static str);

#[derive(Clone, Copy, PartialEq)]
enum Does {
    Nothing,
    Snooze,
    Refuse,
    Hang,
    HangAfterwards,
}

struct Tenants(&'static str, Does, Log);

impl Layer for Tenants {
    fn provides(&self) -> Vec<TypeKey> {
        vec![TypeKey::of::<Tenant>()]
    }

    async fn before(&self, _: &JobContext, states: &mut States) -> Result<ControlFlow<Outcome>, JobError> {
        // Needs a runtime.
        tokio::time::sleep(Duration::from_millis(1)).await;
        states.insert(Tenant(self.0));
        match self.1 {
            Does::Snooze => Ok(ControlFlow::Break(Outcome::Snooze(Duration::from_secs(3600)))),
            Does::Refuse => Err(JobError::msg("no tenant").fatal()),
            Does::Hang => std::future::pending().await,
            Does::Nothing | Does::HangAfterwards => Ok(ControlFlow::Continue(())),
        }
    }

    async fn after(&self, ctx: &JobContext, outcome: &Outcome) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.2.add(format!("{} after {} {outcome:?}", self.0, ctx.kind()));
        if self.1 == Does::HangAfterwards {
            std::future::pending().await
        }
    }

    async fn error(&self, ctx: &JobContext, error: &JobError) {
        self.2.add(format!("{} error {} {error}", self.0, ctx.kind()));
    }
}

fn ran(fails: bool, tenant: &Tenant, log: &Log) -> Result<(), JobError> {
    log.add(format!("runs for {}", tenant.0));
    if fails { Err(JobError::msg("fails").fatal()) } else { Ok(()) }
}

#[job]
async fn on_runtime(fails: bool, State(tenant): State<Tenant>, State(log): State<Log>) -> Result<(), JobError> {
    ran(fails, &tenant, &log)
}

#[job]
fn on_thread(fails: bool, State(tenant): State<Tenant>, State(log): State<Log>) -> Result<(), JobError> {
    ran(fails, &tenant, &log)
}

#[job]
async fn in_async(
    fails: bool,
    _conn: &mut AsyncPgConnection,
    State(tenant): State<Tenant>,
    State(log): State<Log>,
) -> Result<(), JobError> {
    ran(fails, &tenant, &log)
}

#[job]
fn in_pg(
    fails: bool,
    _conn: &mut PgConnection,
    State(tenant): State<Tenant>,
    State(log): State<Log>,
) -> Result<(), JobError> {
    ran(fails, &tenant, &log)
}

#[job]
fn in_sqlite(
    fails: bool,
    _conn: &mut SqliteConnection,
    State(tenant): State<Tenant>,
    State(log): State<Log>,
) -> Result<(), JobError> {
    ran(fails, &tenant, &log)
}

macro_rules! on {
    ($module:ident, $database:pat = $create:expr, $open:expr, [$($wait:tt)*], $transactional:ident) => {
        mod $module {
            use super::*;

            /// Each form of handler, completed and failed.
            #[tokio::test]
            async fn layers_are_called_around_each_handler() {
                let $database = $create;
                let mut conn = $open;
                let log = Log::default();
                let layers = |does| (Tenants("outer", Does::Nothing, log.clone()), Tenants("inner", does, log.clone()));
                for (fails, said) in [(false, "after KIND Complete"), (true, "error KIND fails")] {
                    OnRuntime { fails }.enqueue(&mut conn)$($wait)*.unwrap();
                    OnThread { fails }.enqueue(&mut conn)$($wait)*.unwrap();
                    $transactional { fails }.enqueue(&mut conn)$($wait)*.unwrap();
                    let (outer, inner) = layers(Does::Nothing);
                    let report = drain(&mut conn).state(log.clone()).layer(outer).layer(inner).run()$($wait)*.unwrap();
                    assert_eq!(report.ran.iter().filter(|ran| ran.failed() == fails).count(), 3, "{report}");
                    let of = |ran: &diesel_jobs::testing::RanJob| {
                        let said = said.replace("KIND", &ran.kind);
                        ["runs for inner".to_owned(), format!("inner {said}"), format!("outer {said}")]
                    };
                    assert_eq!(log.take(), report.ran.iter().flat_map(of).collect::<Vec<_>>());

                    let (outer, inner) = layers(Does::Nothing);
                    let performed =
                        perform($transactional { fails }).state(log.clone()).layer(outer).layer(inner).on(&mut conn)$($wait)*;
                    assert_eq!(performed.is_err(), fails);
                    assert_eq!(log.take().len(), 3);
                }
                for (does, said) in [(Does::Snooze, "Ok(Snooze(3600s))"), (Does::Refuse, "Err(no tenant")] {
                    let (outer, inner) = layers(does);
                    let performed =
                        perform($transactional { fails: false }).state(log.clone()).layer(outer).layer(inner).on(&mut conn)$($wait)*;
                    assert!(format!("{performed:?}").starts_with(said), "{performed:?}");
                    let said = log.take();
                    assert!(said.len() == 1 && said[0].starts_with("outer "), "{said:?}");
                    let (outer, inner) = layers(does);
                    OnRuntime { fails: false }.enqueue(&mut conn)$($wait)*.unwrap();
                    let report = drain(&mut conn).state(log.clone()).layer(outer).layer(inner).once().run()$($wait)*.unwrap();
                    assert_eq!(report.ran[0].failed(), does == Does::Refuse, "{report}");
                    assert_eq!(log.take().len(), 1);
                }
            }

            /// A run that crashes calls `before` only.
            #[tokio::test]
            async fn crashes_have_layers() {
                let $database = $create;
                let mut conn = $open;
                let log = Log::default();
                let job = || crash_everywhere($transactional { fails: false }).state(log.clone());
                let problem = job().on(&mut conn)$($wait)*.unwrap_err().to_string();
                assert!(problem.contains("Tenant"), "{problem}");
                assert_eq!(job().layer(Tenants("outer", Does::Nothing, log.clone())).on(&mut conn)$($wait)*.unwrap(), 0);
                let after = format!("outer after {} Complete", <$transactional as diesel_jobs::Job>::KIND);
                let (runs, after) = ("runs for outer".to_owned(), after);
                assert_eq!(log.take(), [runs.clone(), after.clone(), runs.clone(), runs, after]);
            }

            #[tokio::test]
            async fn a_state_that_no_layer_provides_and_a_layer_that_hangs_are_errors() {
                let $database = $create;
                let mut conn = $open;
                let log = Log::default();
                let problem = perform(OnThread { fails: false }).state(log.clone()).on(&mut conn)$($wait)*.unwrap_err();
                assert!(problem.to_string().contains("Tenant"), "{problem}");
                for (does, said) in [(Does::Hang, "`before`"), (Does::HangAfterwards, "`after` or `error`")] {
                    let layer = || Tenants("it", does, log.clone());
                    let (problem, limit) = given_up!(said, limit => {
                        let job = perform(OnRuntime { fails: false }).state(log.clone()).layer(layer()).time_limit(limit);
                        job.on(&mut conn)$($wait)*.unwrap_err().to_string()
                    });
                    assert!(problem.contains(said) && problem.contains(&format!("{limit:?}")), "{problem}");
                    let (problem, _) = given_up!(said, limit => {
                        OnRuntime { fails: false }.enqueue(&mut conn)$($wait)*.unwrap();
                        let drain = drain(&mut conn).state(log.clone()).layer(layer()).time_limit(limit);
                        drain.run()$($wait)*.unwrap_err().to_string()
                    });
                    assert!(problem.contains(said) && problem.contains("`on_runtime`"), "{problem}");
                }
            }
        }
    };
}

on!(pg, database = database::Database::create(), database.pg(), [], InPg);
on!(pg_async, database = database::Database::create(), database.pg_async().await, [.await], InAsync);
on!(sqlite, _ = (), database::sqlite(), [], InSqlite);
on!(sqlite_async, _ = (), database::sqlite_async().await, [.await], InSqlite);
