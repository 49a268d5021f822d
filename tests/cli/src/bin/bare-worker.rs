//! A worker that names no crate. It has no jobs, and must report why.

jobs::worker!();
