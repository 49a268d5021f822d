//! `charge`: books an order's price in the ledger.

use diesel::dsl::now;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs::prelude::*;

use crate::schema::{ledger, orders};

/// Books the order. The handler takes the connection, so it is transactional: the ledger row, the order's `charged_at`
/// and the job's completion are committed together. So it needs no protection against running twice.
#[job(queue = "billing", priority = 10, max_attempts = 10)]
pub async fn charge(conn: &mut AsyncPgConnection, order_id: i64) -> QueryResult<()> {
    let cents: i64 = diesel::update(orders::table.find(order_id))
        .set(orders::charged_at.eq(now))
        .returning(orders::cents)
        .get_result(conn)
        .await?;
    diesel::insert_into(ledger::table)
        .values((ledger::order_id.eq(order_id), ledger::cents.eq(cents)))
        .execute(conn)
        .await?;
    Ok(())
}
