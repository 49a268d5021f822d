//! Prints the results, for programs (`--json`) and for people.

mod line;
mod summary;
mod table;

pub(crate) use line::{Line, Run, Runs, tidy};
pub(crate) use summary::percentile;
pub(crate) use table::table;
