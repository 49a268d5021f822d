//! `GET /health`: whether the server works.

use axum::Json;
use axum::extract::State;
use diesel::dsl::sql;
use diesel::sql_types::Integer;
use diesel_async::RunQueryDsl as _;
use serde_json::{Value, json};

use super::App;
use super::error::WebError;

/// Returns 200 if the database answers, otherwise 503 or 500.
pub(super) async fn health(State(app): State<App>) -> Result<Json<Value>, WebError> {
    let mut conn = app.pool.get().await?;
    let _: i32 = diesel::select(sql::<Integer>("1")).get_result(&mut conn).await?;
    Ok(Json(json!({ "status": "ok" })))
}
