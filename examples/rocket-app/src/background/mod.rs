//! The library's background jobs.

mod demand_back;
mod remind;

pub use demand_back::{DemandBack, demand_back};
pub use remind::{Remind, remind};
