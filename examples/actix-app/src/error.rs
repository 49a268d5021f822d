//! Why a request failed, and the answer to the client.

use actix_web::error::BlockingError;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use diesel::r2d2::PoolError;
use serde_json::json;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// The body is not JSON, or a field is missing.
    #[error("{0}")]
    NotJson(String),
    /// The address has no `@`, or the subject is empty.
    #[error("a ticket needs an e-mail address and a subject")]
    Incomplete,
    /// The address has as many open tickets as it may have.
    #[error("this address has too many open tickets")]
    TooMany,
    /// No ticket has this id.
    #[error("no such ticket")]
    NoSuchTicket,
    /// No connection to the database.
    #[error("no connection to the database: {0}")]
    Pool(#[from] PoolError),
    /// The database returned an error.
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
    /// The thread that used the connection panicked.
    #[error(transparent)]
    Blocking(#[from] BlockingError),
}

impl ResponseError for DeskError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::NotJson(_) => StatusCode::BAD_REQUEST,
            Self::Incomplete => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooMany => StatusCode::CONFLICT,
            Self::NoSuchTicket => StatusCode::NOT_FOUND,
            Self::Pool(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Database(_) | Self::Blocking(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let status = self.status_code();
        // Errors of the server are logged. Clients get no details about them.
        let message = if status.is_server_error() {
            tracing::error!(error = %self, status = status.as_u16(), "a request failed");
            "the desk is not well; try again later".to_owned()
        } else {
            self.to_string()
        };
        HttpResponse::build(status).json(json!({ "error": message }))
    }
}
