//! `dead_letters`: the rows that [`set_apart`](super::set_apart) has stored in `jobs.dead_letter`. It locks no rows.

use chrono::{DateTime, Utc};
use diesel::dsl::count_star;
use diesel::prelude::*;
use diesel::sql_types::{Integer, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{DeadLetter, DeadLetters, JobId};

use crate::pg::schema::dead_letter;

/// The most characters that are read of a kind and of a queue. In rows that were written by hand they may be longer.
const LONGEST: i32 = 200;

diesel::define_sql_function! {
    fn left(text: Text, characters: Integer) -> Text;
}

type Row = (i64, i64, String, String, String, DateTime<Utc>);

pub(crate) async fn dead_letters(conn: &mut AsyncPgConnection) -> QueryResult<DeadLetters> {
    let count: i64 = dead_letter::table.select(count_star()).get_result(conn).await?;
    let newest: Option<Row> = dead_letter::table
        .order(dead_letter::number.desc())
        .select((
            dead_letter::number,
            dead_letter::id,
            left(dead_letter::kind, LONGEST),
            left(dead_letter::queue, LONGEST),
            dead_letter::reason,
            dead_letter::at,
        ))
        .first(conn)
        .await
        .optional()?;
    let newest = newest.map(|(number, id, kind, queue, reason, at)| DeadLetter {
        number,
        id: JobId(id),
        kind,
        queue,
        reason,
        at,
    });
    Ok(DeadLetters { count, newest })
}
