//! Why a request failed, and the answer to the client.

use diesel::result::{DatabaseErrorKind, Error};
use diesel_async::pooled_connection::deadpool::PoolError;
use diesel_jobs::EnqueueError;
use rocket::Request;
use rocket::http::Status;
use rocket::response::{self, Responder};
use rocket::serde::json::{self, Json};
use serde_json::json;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The body is not JSON, or a field is missing.
    #[error("{0}")]
    NotJson(String),
    /// The reader has no name.
    #[error("a loan needs the name of a reader")]
    Nobody,
    /// The library has no book with this title.
    #[error("the library has no such book")]
    NoSuchBook,
    /// A reader has the book.
    #[error("this book is lent")]
    Lent,
    /// No loan has this id, or its book was returned before.
    #[error("no such loan")]
    NoSuchLoan,
    /// No connection to the database.
    #[error("no connection to the database: {0}")]
    Pool(#[from] PoolError),
    /// The job was not enqueued.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// The database returned an error.
    #[error(transparent)]
    Database(Error),
}

impl From<Error> for LibraryError {
    fn from(error: Error) -> Self {
        match error {
            // The only unique key that a request can violate is `loans_book_id`.
            Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _) => Self::Lent,
            error => Self::Database(error),
        }
    }
}

impl From<json::Error<'_>> for LibraryError {
    fn from(error: json::Error<'_>) -> Self {
        Self::NotJson(error.to_string())
    }
}

impl LibraryError {
    fn status(&self) -> Status {
        match self {
            Self::NotJson(_) => Status::BadRequest,
            Self::Nobody => Status::UnprocessableEntity,
            Self::NoSuchBook | Self::NoSuchLoan => Status::NotFound,
            Self::Lent => Status::Conflict,
            Self::Pool(_) => Status::ServiceUnavailable,
            Self::Enqueue(_) | Self::Database(_) => Status::InternalServerError,
        }
    }
}

impl<'r> Responder<'r, 'static> for LibraryError {
    fn respond_to(self, request: &'r Request<'_>) -> response::Result<'static> {
        let status = self.status();
        // Errors of the server are logged. Clients get no details about them.
        let message = if status.class().is_server_error() {
            tracing::error!(error = %self, status = status.code, "a request failed");
            "the library is not well; try again later".to_owned()
        } else {
            self.to_string()
        };
        (status, Json(json!({ "error": message }))).respond_to(request)
    }
}
