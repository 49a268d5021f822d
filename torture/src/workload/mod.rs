//! The load: jobs of every temper, generated from a seed, the handlers that run them, and the application that enqueues them.

mod application;
pub mod bombs;
pub mod handlers;
pub mod holding;
pub mod hostile;
mod jobs;
mod mix;
mod poison;
pub mod stalling;
pub mod versions;

pub use self::jobs::{Shape, Work, new_job};
pub use application::Application;
pub use mix::{Deed, Mix, Workload};
pub use poison::Poison;
