//! `nightly_report`: counts yesterday's orders.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeZone as _, Utc};
use chrono_tz::Europe::Paris;
use diesel::dsl::{count_star, sql};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs::prelude::*;

use crate::schema::{orders, reports};

/// Runs every night at two, Paris time, and counts the orders of the day before, Paris time. After an outage it runs
/// for the last missed night only. A report that is made again replaces the first one.
#[job(cron = "0 0 2 * * *", timezone = "Europe/Paris", catch_up = "last")]
pub async fn nightly_report(conn: &mut AsyncPgConnection, ctx: &JobContext) -> anyhow::Result<()> {
    // The time of the tick, and not of the clock. So a job that runs late still reports the right day.
    let today = ctx.run_at().with_timezone(&Paris).date_naive();
    let yesterday = today - Days::new(1);
    let (count, cents): (i64, i64) = orders::table
        .filter(orders::placed_at.ge(midnight(yesterday)?).and(orders::placed_at.lt(midnight(today)?)))
        // Diesel reads the sum of bigints as a numeric, which would need another crate.
        .select((count_star(), sql::<BigInt>("coalesce(sum(cents), 0)::bigint")))
        .get_result(conn)
        .await?;
    let report = (reports::orders.eq(count), reports::cents.eq(cents));
    diesel::insert_into(reports::table)
        .values((reports::day.eq(yesterday), report))
        .on_conflict(reports::day)
        .do_update()
        .set(report)
        .execute(conn)
        .await?;
    Ok(())
}

/// Returns the time at which a day begins in Paris.
fn midnight(day: NaiveDate) -> anyhow::Result<DateTime<Utc>> {
    let start = Paris.from_local_datetime(&day.and_time(NaiveTime::MIN)).earliest();
    Ok(start.ok_or_else(|| anyhow::anyhow!("{day} has no midnight in Paris"))?.to_utc())
}
