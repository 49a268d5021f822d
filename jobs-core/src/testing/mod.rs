//! What tests of handlers use: a context, and calls that turn panics into errors.

#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod calls;
mod context;
#[cfg(feature = "testing")]
mod golden;
#[cfg(feature = "testing")]
pub(crate) mod limit;
#[cfg(feature = "testing")]
mod tick;

pub use context::TestContext;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use golden::check_golden;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use tick::tick;
