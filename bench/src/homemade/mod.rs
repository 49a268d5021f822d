//! Queues as blog posts teach to write them: a table, a statement that takes a job, and a statement that ends it. Each
//! process has one connection, which takes one job at a time.

mod process;
mod recipe;
mod session;
mod totals;

pub(crate) use process::{COMMAND, HomemadeArgs, arguments, main};
pub(crate) use recipe::{RECIPES, Recipe};
