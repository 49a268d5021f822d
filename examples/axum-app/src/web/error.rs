//! The answer to a client when a request fails, and what is logged.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use diesel_async::pooled_connection::deadpool::PoolError;
use serde_json::json;

use crate::order::OrderError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebError {
    #[error("no such order")]
    NoSuchOrder,
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error("no connection to the database: {0}")]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

impl WebError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchOrder => StatusCode::NOT_FOUND,
            Self::Order(OrderError::PaymentRefused) => StatusCode::PAYMENT_REQUIRED,
            Self::Order(OrderError::UnknownCustomer | OrderError::Nothing) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Pool(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Order(OrderError::Database(_)) | Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let status = self.status();
        // Errors of the server are logged. Clients get no details about them.
        let message = if status.is_server_error() {
            tracing::error!(error = %self, status = status.as_u16(), "a request failed");
            "the shop is not well; try again later".to_owned()
        } else {
            self.to_string()
        };
        (status, Json(json!({ "error": message }))).into_response()
    }
}
