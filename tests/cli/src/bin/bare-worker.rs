//! A worker that names no crate: it has no jobs, and must say why.

background::worker!();
