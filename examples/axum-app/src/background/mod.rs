//! The shop's background jobs.

mod charge;
mod nightly_report;
mod send_mail;

pub use charge::{Charge, charge};
pub use nightly_report::{NightlyReport, nightly_report};
pub use send_mail::{SendMail, send_mail};
