//! `remind`: reminds a reader of a loan.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs::prelude::*;

use crate::schema::{letters, loans};

/// Writes a reminder, unless the book has been returned. The handler takes the connection, so it is transactional: the
/// letter and the job's completion are committed together. If a worker dies, there is still only one letter.
#[job(queue = "letters", max_attempts = 10)]
pub async fn remind(conn: &mut AsyncPgConnection, loan_id: i64) -> QueryResult<()> {
    let returned = loans::table.find(loan_id).select(loans::returned_at.is_not_null());
    if returned.get_result(conn).await? {
        return Ok(());
    }
    let letter = (letters::loan_id.eq(loan_id), letters::kind.eq("reminder"));
    diesel::insert_into(letters::table).values(letter).execute(conn).await?;
    Ok(())
}
