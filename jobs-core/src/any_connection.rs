//! A database connection whose type is not known here.

use std::any::Any;

/// A database connection with its type erased. The storage and the handler know the type.
pub type AnyConnection<'c> = &'c mut (dyn Any + Send);
