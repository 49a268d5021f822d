//! The tests' databases and processes.

mod database;
pub(crate) mod exposition;
pub(crate) mod http;
mod process;
pub(crate) mod proxy;
mod terminal;

pub(crate) use database::{Db, Scratch, on_postgres};
pub(crate) use process::{Prepared, Run, Running, worker};
pub(crate) use terminal::Terminal;

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
