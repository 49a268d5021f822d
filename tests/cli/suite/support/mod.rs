//! The tests' databases and processes, and waiting with a limit.

mod database;
mod doctor;
pub(crate) mod exposition;
mod gate;
pub(crate) mod http;
pub(crate) mod pooler;
mod process;
pub(crate) mod proxy;
mod terminal;

use std::fmt::Display;
use std::time::{Duration, Instant};

pub(crate) use database::{Db, Scratch, on_postgres};
pub(crate) use doctor::Findings;
pub(crate) use gate::Gate;
pub(crate) use process::{Prepared, Run, Running, worker};
pub(crate) use terminal::Terminal;

/// The time limit of each wait. It only guards against hanging: a busy machine takes its time.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// Calls `check` repeatedly until it returns `Ok`. An error says what is still missing.
pub(crate) fn until<T, E: Display>(mut check: impl FnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match check() {
            Ok(seen) => return seen,
            // It is minutes.
            Err(missing) => assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?}: {missing}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes two tests of each function: on SQLite and on PostgreSQL, each with a database of its own.
macro_rules! on_each_database {
    ($(fn $name:ident($db:ident) $body:block)+) => {
        mod sqlite {
            #[allow(unused_imports)]
            use super::*;
            $(#[test] fn $name() { let $db = $crate::support::Db::sqlite(); $body })+
        }
        mod postgres {
            #[allow(unused_imports)]
            use super::*;
            $(#[test] fn $name() { let $db = $crate::support::Db::postgres(); $body })+
        }
    };
}
