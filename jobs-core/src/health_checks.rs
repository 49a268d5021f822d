//! Checks of a database that are the same for every storage. They are pure functions.

mod clocks;
mod schedules;
mod servers;
mod waiting;
mod zones;

pub use clocks::clocks;
pub use schedules::schedules;
pub use waiting::{Observed, due_jobs, unserved, waiting};
pub use zones::{OtherRules, ZoneOffset, zone_offsets, zones};
