//! The load: many sorts of jobs, generated from a seed, the handlers that run them, and the application that enqueues
//! them.

mod application;
pub mod batched;
pub mod bombs;
pub mod handlers;
pub mod holding;
pub mod hostile;
pub mod keyed;
mod mix;
mod new_job;
mod poison;
pub mod stalling;
pub mod versions;
mod work;

pub use self::new_job::new_job;
pub use self::work::{BURST, RATE, Shape, Work, WorkLimit, WorkSequence};
pub use application::Application;
pub use mix::{BUSY_KEYS, EnqueueCall, Mix, RATE_KEYS, Workload, disturb};
pub use poison::Poison;
