//! `#[job]` and `#[derive(Job)]`: what they write, used as a program and a worker use it. What they refuse is in `tests/ui`.

mod arguments;
mod attributes;
mod declaration;
mod handlers;
mod options;
mod support;
