//! Queues as blog posts teach to write them: a table, a statement that takes a job, and a statement that ends it. One
//! connection takes one job at a time.

mod hand;
mod recipe;

pub(crate) use hand::{Tally, work};
pub(crate) use recipe::{RECIPES, Recipe};
