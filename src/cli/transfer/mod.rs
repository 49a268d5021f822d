//! `export` and `import`: jobs as lines of JSON.

pub(super) mod export;
pub(super) mod import;
mod line;
mod source;
