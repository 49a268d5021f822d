//! What was measured, for programs (`--json`) and for people.

mod line;
mod summary;
mod table;

pub(crate) use line::{Line, Run, Runs};
pub(crate) use summary::{median, percentile};
pub(crate) use table::table;
