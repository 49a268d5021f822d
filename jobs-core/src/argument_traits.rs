//! `Debug`, `Clone` and `PartialEq` of the structs that `#[job]` generates. A struct has each of them if all of its
//! arguments have it.
//!
//! The compiler refuses an `impl` with a bound that it knows to be false, such as `where Token: Clone`. It does not
//! check a bound that contains a bound lifetime before the `impl` is used. So each trait here has a lifetime, and the
//! generated bounds are `for<'a> Token: CloneArgument<'a>`.

use std::fmt::Debug;

/// An argument with `Debug`.
#[diagnostic::on_unimplemented(
    message = "this job has no `Debug`, because its argument of type `{Self}` has none",
    note = "derive `Debug` for `{Self}`, or mark the argument with `#[arg(secret)]`"
)]
pub trait DebugArgument<'a> {
    /// The argument, to be printed.
    fn as_debug(&self) -> &dyn Debug;
}

#[diagnostic::do_not_recommend]
impl<T: Debug> DebugArgument<'_> for T {
    fn as_debug(&self) -> &dyn Debug {
        self
    }
}

/// An argument with `Clone`.
#[diagnostic::on_unimplemented(
    message = "this job has no `Clone`, because its argument of type `{Self}` has none",
    note = "derive `Clone` for `{Self}`"
)]
pub trait CloneArgument<'a> {
    /// A copy of the argument.
    fn clone_argument(&self) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Clone> CloneArgument<'_> for T {
    fn clone_argument(&self) -> Self {
        self.clone()
    }
}

/// An argument with `PartialEq`.
#[diagnostic::on_unimplemented(
    message = "this job has no `PartialEq`, because its argument of type `{Self}` has none",
    note = "derive `PartialEq` for `{Self}`"
)]
pub trait PartialEqArgument<'a> {
    /// Whether the arguments are equal.
    fn is_equal(&self, other: &Self) -> bool;
}

#[diagnostic::do_not_recommend]
impl<T: PartialEq> PartialEqArgument<'_> for T {
    fn is_equal(&self, other: &Self) -> bool {
        self == other
    }
}

/// Prints instead of a secret argument.
#[derive(Clone, Copy)]
pub struct Redacted;

impl Debug for Redacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(crate::secrets::REDACTED)
    }
}
