//! The routes.

use std::time::Duration;

use rocket::http::Status;
use rocket::response::status::Created;
use rocket::serde::json::{self, Json};
use rocket::{Build, Rocket, State, get, post, routes};
use serde_json::{Value, json};

use crate::error::LibraryError;
use crate::loan::{self, NewLoan};
use crate::page::Page;
use crate::pool::Pool;

/// How long after a loan the reader is reminded of it.
struct RemindAfter(Duration);

/// Returns the application. Rocket reads its own settings from `ROCKET_PORT` and other variables.
pub fn library(pool: Pool, remind_after: Duration) -> Rocket<Build> {
    rocket::build().manage(pool).manage(RemindAfter(remind_after)).mount("/", routes![lend, show, give_back])
}

/// Returns 201 with the id of the new loan.
#[post("/loans", data = "<loan>")]
async fn lend(
    pool: &State<Pool>,
    remind_after: &State<RemindAfter>,
    loan: Result<Json<NewLoan>, json::Error<'_>>,
) -> Result<Created<Json<Value>>, LibraryError> {
    let mut conn = pool.get().await?;
    let id = loan::lend(&mut conn, &*loan?, remind_after.0).await?;
    Ok(Created::new(format!("/loans/{id}")).body(Json(json!({ "id": id }))))
}

/// Returns 200 with the loan and its letters, or 404.
#[get("/loans/<id>")]
async fn show(pool: &State<Pool>, id: i64) -> Result<Json<Page>, LibraryError> {
    Ok(Json(Page::of(&mut *pool.get().await?, id).await?))
}

/// Returns 204, or 404 if no reader has the book of this loan.
#[post("/loans/<id>/return")]
async fn give_back(pool: &State<Pool>, id: i64) -> Result<Status, LibraryError> {
    loan::give_back(&mut *pool.get().await?, id).await?;
    Ok(Status::NoContent)
}
