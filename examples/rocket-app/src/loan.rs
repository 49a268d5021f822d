//! Lends a book: one transaction inserts the loan and enqueues its job.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use diesel::prelude::*;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs::prelude::*;
use serde::Deserialize;

use crate::background::Remind;
use crate::error::LibraryError;
use crate::schema::{books, loans};

/// How long a reader may keep a book.
const TERM: TimeDelta = TimeDelta::days(28);

/// The request of a reader.
#[derive(Clone, Debug, Deserialize)]
pub struct NewLoan {
    /// The title of the book.
    pub book: String,
    /// Who wants to read it.
    pub reader: String,
}

/// Lends a book, and returns the id of the loan. The loan and its job are committed together or not at all.
pub async fn lend(conn: &mut AsyncPgConnection, loan: &NewLoan, remind_after: Duration) -> Result<i64, LibraryError> {
    if loan.reader.trim().is_empty() {
        return Err(LibraryError::Nobody);
    }
    conn.transaction(async |conn| {
        let book = books::table.filter(books::title.eq(&loan.book)).select(books::id);
        let book: i64 = book.first(conn).await.optional()?.ok_or(LibraryError::NoSuchBook)?;
        let row = (loans::book_id.eq(book), loans::reader.eq(&loan.reader), loans::due_at.eq(Utc::now() + TERM));
        let loan_id = diesel::insert_into(loans::table).values(row).returning(loans::id).get_result(conn).await?;
        Remind { loan_id }.delay(remind_after).enqueue(conn).await?;
        Ok(loan_id)
    })
    .await
}

/// Takes a book back.
pub async fn give_back(conn: &mut AsyncPgConnection, loan_id: i64) -> Result<(), LibraryError> {
    let loan = loans::table.find(loan_id).filter(loans::returned_at.is_null());
    let changed = diesel::update(loan).set(loans::returned_at.eq(diesel::dsl::now)).execute(conn).await?;
    if changed == 0 { Err(LibraryError::NoSuchLoan) } else { Ok(()) }
}
