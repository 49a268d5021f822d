//! Places an order: one transaction inserts the order and enqueues its jobs.

use std::time::Duration;

use diesel::prelude::*;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs::prelude::*;
use serde::Deserialize;

use crate::background::{Charge, SendMail};
use crate::schema::{customers, order_jobs, orders};

/// The request of a customer.
#[derive(Clone, Debug, Deserialize)]
pub struct NewOrder {
    /// The address that identifies the customer.
    pub customer: String,
    /// The item to buy.
    pub item: String,
    /// The price.
    pub cents: i64,
}

/// Why the order was not placed.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// No customer has this address.
    #[error("no such customer")]
    UnknownCustomer,
    /// The item is empty, or the price is not above zero.
    #[error("an order needs an item and a price above zero")]
    Nothing,
    /// The customer's credit is too low.
    #[error("payment refused: the customer's credit does not reach")]
    PaymentRefused,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

/// Places the order, and returns its id. The order, the credit that it uses and its three jobs are committed together
/// or not at all. An error rolls everything back, including the jobs that were already enqueued.
pub async fn place_order(
    conn: &mut AsyncPgConnection,
    order: &NewOrder,
    review_after: Duration,
) -> Result<i64, OrderError> {
    if order.item.is_empty() || order.cents <= 0 {
        return Err(OrderError::Nothing);
    }
    conn.transaction(async |conn| {
        let id = insert(conn, order).await?;
        enqueue(conn, id, &order.customer, review_after).await?;
        // Last, because orders of the same customer wait for each other from here to the commit.
        reserve_credit(conn, order).await?;
        Ok(id)
    })
    .await
}

async fn insert(conn: &mut AsyncPgConnection, order: &NewOrder) -> Result<i64, OrderError> {
    let customer: i64 = customers::table
        .filter(customers::email.eq(&order.customer))
        .select(customers::id)
        .get_result(conn)
        .await
        .optional()?
        .ok_or(OrderError::UnknownCustomer)?;
    let row = (orders::customer_id.eq(customer), orders::item.eq(&order.item), orders::cents.eq(order.cents));
    Ok(diesel::insert_into(orders::table).values(row).returning(orders::id).get_result(conn).await?)
}

/// Enqueues the jobs of the order, and stores their ids with the order's id.
async fn enqueue(
    conn: &mut AsyncPgConnection,
    order_id: i64,
    address: &str,
    review_after: Duration,
) -> QueryResult<()> {
    let charge = Charge { order_id }.enqueue(conn).await?;
    let confirmation = SendMail::new(order_id, address, "confirmation").enqueue(conn).await?;
    let review = SendMail::new(order_id, address, "review").delay(review_after).priority(-5).enqueue(conn).await?;
    let rows =
        [charge, confirmation, review].map(|id| (order_jobs::job_id.eq(id.0), order_jobs::order_id.eq(order_id)));
    diesel::insert_into(order_jobs::table).values(rows).execute(conn).await?;
    Ok(())
}

async fn reserve_credit(conn: &mut AsyncPgConnection, order: &NewOrder) -> Result<(), OrderError> {
    let affordable = customers::email.eq(&order.customer).and(customers::credit_cents.ge(order.cents));
    let reserved = diesel::update(customers::table.filter(affordable))
        .set(customers::credit_cents.eq(customers::credit_cents - order.cents))
        .execute(conn)
        .await?;
    if reserved == 0 { Err(OrderError::PaymentRefused) } else { Ok(()) }
}
