//! `close_stale`: closes old tickets.

use chrono::TimeDelta;
use diesel::prelude::*;
use diesel_jobs::prelude::*;

use crate::schema::tickets;

/// Every hour, closes the tickets that have been open for two weeks.
#[job(cron = "0 0 * * * *", catch_up = "last")]
pub fn close_stale(conn: &mut PgConnection, ctx: &JobContext) -> QueryResult<()> {
    // The time of the tick, and not of the clock: a late job closes the same tickets.
    let before = ctx.run_at() - TimeDelta::weeks(2);
    let stale = tickets::table.filter(tickets::closed_at.is_null().and(tickets::opened_at.lt(before)));
    diesel::update(stale).set(tickets::closed_at.eq(ctx.run_at())).execute(conn)?;
    Ok(())
}
