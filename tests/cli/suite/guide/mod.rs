//! The pages of the documentation: their outputs are those of real commands, run on a database like that of the page.
//!
//! The page on testing is compared in `tests/testing/guide.rs`.

mod blocks;
mod dashboard;
mod messages;
mod operating;
mod readme;
mod shell;
mod troubleshooting;
