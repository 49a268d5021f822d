//! What tests of handlers use: a context, and calls that turn panics into errors.

#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod calls;
mod context;

pub use context::TestContext;
