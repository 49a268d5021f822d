//! Checks of a database that are the same for every storage. They are pure functions.

mod clocks;
mod discard_rules;
mod schedules;
mod servers;
mod waiting;
mod zones;

pub use clocks::clocks;
pub use discard_rules::discard_rules;
pub use schedules::schedules;
pub use waiting::{Observed, UNNOTICED, due_jobs, unserved, waiting};
pub use zones::{OtherRules, ZoneOffset, zone_offsets, zones};
