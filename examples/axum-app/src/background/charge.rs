//! `charge`: an order's price goes into the ledger.

use diesel::dsl::now;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs::prelude::*;

use crate::schema::{ledger, orders};

/// Books the order. It asks for the connection, so it is transactional: the ledger row, the order's mark and the job's
/// completion commit together. That is why it needs no guard against running twice.
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
