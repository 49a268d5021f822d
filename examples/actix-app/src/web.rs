//! The routes.

use actix_web::http::header::LOCATION;
use actix_web::web::{self, Data, Json, JsonConfig, Path, ServiceConfig};
use actix_web::{HttpResponse, get, post};
use diesel::prelude::*;
use serde_json::json;

use crate::error::DeskError;
use crate::pool::Pool;
use crate::schema::tickets;
use crate::ticket::{NewTicket, Ticket, open_ticket};

/// Adds the routes to an application, which must have a [`Pool`] as its `Data`.
pub fn routes(config: &mut ServiceConfig) {
    let json = JsonConfig::default().error_handler(|error, _| DeskError::NotJson(error.to_string()).into());
    config.app_data(json).service(open).service(show);
}

/// Returns 201 with the id of the new ticket.
#[post("/tickets")]
async fn open(pool: Data<Pool>, ticket: Json<NewTicket>) -> Result<HttpResponse, DeskError> {
    let id = on_database(pool, move |conn| open_ticket(conn, &ticket)).await?;
    Ok(HttpResponse::Created().insert_header((LOCATION, format!("/tickets/{id}"))).json(json!({ "id": id })))
}

/// Returns 200 with the ticket, or 404.
#[get("/tickets/{id}")]
async fn show(pool: Data<Pool>, id: Path<i64>) -> Result<Json<Ticket>, DeskError> {
    let ticket = Ticket::query().filter(tickets::id.eq(*id));
    let ticket = on_database(pool, move |conn| Ok(ticket.first(conn).optional()?)).await?;
    ticket.map(Json).ok_or(DeskError::NoSuchTicket)
}

/// Calls a function with a connection, on a thread that may block, as Diesel's own connections do.
async fn on_database<T: Send + 'static>(
    pool: Data<Pool>,
    work: impl FnOnce(&mut PgConnection) -> Result<T, DeskError> + Send + 'static,
) -> Result<T, DeskError> {
    web::block(move || work(&mut *pool.get()?)).await?
}
