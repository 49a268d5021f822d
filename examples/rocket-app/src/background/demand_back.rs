//! `demand_back`: demands overdue books back.

use diesel::dsl::{exists, not};
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs::prelude::*;

use crate::schema::{letters, loans};

/// Every morning at seven, Paris time, writes one letter about each loan that is overdue and has no such letter yet.
#[job(cron = "0 0 7 * * *", timezone = "Europe/Paris", catch_up = "last")]
pub async fn demand_back(conn: &mut AsyncPgConnection, ctx: &JobContext) -> QueryResult<()> {
    let written = letters::table.filter(letters::loan_id.eq(loans::id).and(letters::kind.eq("demand")));
    let overdue = loans::table
        // The time of the tick, and not of the clock: a late job writes the same letters.
        .filter(loans::returned_at.is_null().and(loans::due_at.lt(ctx.run_at())))
        .filter(not(exists(written)))
        .select((loans::id, "demand".into_sql::<Text>()));
    let demands = overdue.insert_into(letters::table).into_columns((letters::loan_id, letters::kind));
    demands.execute(conn).await?;
    Ok(())
}
