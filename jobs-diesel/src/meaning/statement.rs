//! The error of a statement behind the error of a handler.

use diesel::result::Error;

use crate::error::{CompleteError, EnqueueError};
use crate::job_change::ChangeError;
use crate::stored_output::OutputError;

/// The error of a statement that the error of a handler is, or that one of its causes is. Ours contain it as a field.
pub(crate) fn of<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    if let Some(EnqueueError::Schema(error) | EnqueueError::Database(error)) = cause.downcast_ref() {
        return Some(error);
    }
    if let Some(ChangeError::Schema(error) | ChangeError::Database(error)) = cause.downcast_ref() {
        return Some(error);
    }
    match (cause.downcast_ref(), cause.downcast_ref()) {
        (Some(CompleteError::Database(error)), _) | (_, Some(OutputError::Database(error))) => Some(error),
        _ => cause.downcast_ref(),
    }
}
