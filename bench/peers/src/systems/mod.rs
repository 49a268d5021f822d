//! The systems, one per file: how each is set up, enqueued to and worked, as its documentation tells.

pub(crate) mod apalis;
pub(crate) mod awa;
pub(crate) mod graphile;
pub(crate) mod ours;
