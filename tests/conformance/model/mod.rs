//! Random sequences of operations, on a storage and on a small model of it. After any steps in any order, both must be
//! in the same state.
//!
//! [`strategy`] generates sequences of [`step`]s. [`world`] runs them on both, and compares all jobs after each step.
//! If they differ, the sequence is shortened as far as possible and printed. Correct the error, and add the sequence to
//! [`regressions`].
//!
//! `PROPTEST_CASES=1000` runs more sequences than each normal run. `PROPTEST_RNG_SEED` repeats a run.

mod ageing;
mod claim;
mod compare;
mod fair;
mod finish;
mod flow;
mod full;
mod operate;
pub(crate) mod regressions;
mod rescue;
mod state;
mod step;
mod strategy;
mod working;
mod world;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tokio::runtime::Builder;
use tokio::sync::Mutex;

use crate::fixture::Fixture;

/// The number of sequences, unless `PROPTEST_CASES` is set.
const LIVES: u32 = 40;
/// The limits for shortening a sequence: milliseconds, and attempts.
const SHRINK_FOR: u32 = 180_000;
const SHRINK_OFTEN: u32 = 10_000;

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_lives_as_the_model_does() {
    compare::<crate::sqlite::Sqlite>();
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_lives_as_the_model_does() {
    compare::<crate::postgres::Postgres>();
}

fn compare<F: Fixture>() {
    // A storage pauses to let other sessions work, and here there are none. So pauses are skipped if the storage needs
    // no other timer.
    let runtime = Builder::new_current_thread().enable_all().start_paused(F::ONLY_PAUSES).build().unwrap();
    let (fixture, client) = runtime.block_on(async {
        let fixture = F::fresh().await;
        fixture.client().await.execute(F::HASTE).await.unwrap();
        let client = Mutex::new(fixture.client().await);
        (fixture, client)
    });
    let mut config = Config {
        failure_persistence: None,
        max_shrink_time: SHRINK_FOR,
        max_shrink_iters: SHRINK_OFTEN,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = LIVES;
    }
    let played = TestRunner::new(config).run(&strategy::lives(), |steps| {
        let play = async { world::play(&fixture, &mut **client.lock().await, &steps).await };
        runtime.block_on(play).map_err(TestCaseError::fail)
    });
    if let Err(TestError::Fail(divergence, steps)) = &played {
        let steps: String = steps.iter().map(|step| format!("    {step:?},\n")).collect();
        panic!("the storage is not as the model is: {divergence}\nthe shortest way there:\n[\n{steps}]");
    }
    played.unwrap();
}
