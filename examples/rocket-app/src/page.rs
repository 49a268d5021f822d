//! The page of a loan.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use serde::Serialize;

use crate::error::LibraryError;
use crate::schema::{books, letters, loans};

/// The fields of a loan.
#[derive(Serialize, HasQuery)]
#[diesel(table_name = loans, base_query = loans::table.inner_join(books::table), check_for_backend(diesel::pg::Pg))]
struct Loan {
    id: i64,
    #[diesel(select_expression = books::title)]
    book: String,
    reader: String,
    due_at: DateTime<Utc>,
    returned_at: Option<DateTime<Utc>>,
}

/// A loan, and the kinds of the letters about it.
#[derive(Serialize)]
pub(crate) struct Page {
    #[serde(flatten)]
    loan: Loan,
    letters: Vec<String>,
}

impl Page {
    pub(crate) async fn of(conn: &mut AsyncPgConnection, id: i64) -> Result<Self, LibraryError> {
        let loan = Loan::query().filter(loans::id.eq(id)).get_result(conn).await.optional()?;
        let loan = loan.ok_or(LibraryError::NoSuchLoan)?;
        let written = letters::table.filter(letters::loan_id.eq(id)).order(letters::id).select(letters::kind);
        Ok(Self { loan, letters: written.load(conn).await? })
    }
}
