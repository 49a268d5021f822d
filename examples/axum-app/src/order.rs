//! Placing an order: one transaction from the order to its jobs.

use std::time::Duration;

use diesel::prelude::*;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs::prelude::*;
use serde::Deserialize;

use crate::background::{Charge, SendMail};
use crate::schema::{customers, order_jobs, orders};

/// What a customer asks for.
#[derive(Clone, Debug, Deserialize)]
pub struct NewOrder {
    /// The address the customer is known by.
    pub customer: String,
    /// What to buy.
    pub item: String,
    /// For how much.
    pub cents: i64,
}

/// Why there is no order.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// Nobody is known by this address.
    #[error("no such customer")]
    UnknownCustomer,
    /// An order is for something, and costs something.
    #[error("an order needs an item and a price above zero")]
    Nothing,
    /// The customer's credit does not reach.
    #[error("payment refused: the customer's credit does not reach")]
    PaymentRefused,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

/// Places the order and answers its id. The order, the credit it uses up and its three jobs are there together or not
/// at all: whatever error leaves the closure takes everything with it, also what was enqueued before.
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

/// Enqueues what follows from the order, and notes the jobs' ids beside it.
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
