//! The command line of the bundled worker, as users run it: real processes, their output, their exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../page/mod.rs"]
mod page;
#[macro_use]
mod support;

mod acting;
mod bench;
mod copy;
mod credentials;
mod dashboards;
mod doctor;
mod dotenv;
mod down;
mod enqueue;
mod flow_control;
mod freezing;
mod guide;
mod helping;
mod listening;
mod long_attempt;
mod options;
mod restoring;
mod roles;
mod run;
mod schema;
mod serving;
mod settings;
mod showing;
mod standby;
mod startup;
mod summaries;
mod supervising;
mod tail;
mod top;
mod transferring;
mod unknown_queues;
mod unread_log;
mod until_empty;
mod upgrading;
