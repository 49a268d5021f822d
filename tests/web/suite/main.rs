//! The dashboard, tested on both databases: every page under a prefix, who may do what, hostile texts, and a real
//! browser. Run these tests with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by panicking")]

mod attack;
mod browser;
mod client;
mod doctor;
mod errors;
mod failing;
mod figures;
mod flow_control;
mod forms;
mod hostile;
mod html;
mod jobs;
mod live;
mod outages;
mod pages;
mod pictures;
mod queues;
mod repeated;
mod rights;
mod seed;
mod sentences;
mod settings;
mod timeline;
