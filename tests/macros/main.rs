//! `#[job]` and `#[derive(Job)]`: the generated code, used as a program and a worker use it. The errors of the macros
//! are in `tests/ui`.

mod arguments;
mod attributes;
mod declaration;
mod handlers;
mod options;
mod support;
mod traits;
