//! `GET /orders/{id}`: an order, and the states of its jobs.

use axum::Json;
use axum::extract::{Path, State};
use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;

use super::App;
use super::error::WebError;
use crate::jobs_view::job;
use crate::schema::{customers, mails, order_jobs, orders};

/// The fields of an order that a customer may see.
#[derive(Serialize, HasQuery)]
#[diesel(table_name = orders, base_query = orders::table.inner_join(customers::table), check_for_backend(diesel::pg::Pg))]
pub(super) struct Order {
    id: i64,
    #[diesel(select_expression = customers::email)]
    customer: String,
    item: String,
    cents: i64,
    placed_at: DateTime<Utc>,
    charged_at: Option<DateTime<Utc>>,
}

/// The state of one of the order's jobs.
#[derive(Serialize, Queryable, Selectable)]
#[diesel(table_name = job, check_for_backend(diesel::pg::Pg))]
struct Progress {
    kind: String,
    state: String,
    attempt: i32,
    run_at: DateTime<Utc>,
    last_error: Option<String>,
}

/// An order with its jobs and with the names of the mails about it.
#[derive(Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    order: Order,
    jobs: Vec<Progress>,
    mails: Vec<String>,
}

/// Returns 200 with the order, or 404.
pub(super) async fn show_order(State(app): State<App>, Path(id): Path<i64>) -> Result<Json<Shown>, WebError> {
    let mut conn = app.pool.get().await?;
    let order = Order::query().filter(orders::id.eq(id)).get_result(&mut conn).await.optional()?;
    let order = order.ok_or(WebError::NoSuchOrder)?;
    let jobs = order_jobs::table
        .inner_join(job::table)
        .filter(order_jobs::order_id.eq(id))
        .order(job::id)
        .select(Progress::as_select())
        .load(&mut conn)
        .await?;
    let sent = mails::table.filter(mails::order_id.eq(id)).order(mails::accepted_at).select(mails::template);
    Ok(Json(Shown { order, jobs, mails: sent.load(&mut conn).await? }))
}
