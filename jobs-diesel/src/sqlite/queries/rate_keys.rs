//! `rate_keys`: the keys with a rate that hold jobs back. Keys are found by one probe each in `jobs_job_held_rate`, and
//! rows are counted up to a limit, so a bounded number of entries is read.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_jobs_core::JobRule;
use diesel_jobs_core::storage::{AfterKey, RateKey};

use crate::sqlite::queries::limit_keys::Held;
use crate::sqlite::queries::rate::HELD;
use crate::sqlite::types::Instant;

#[derive(QueryableByName)]
struct First {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Text)]
    place: String,
    #[diesel(sql_type = Nullable<BigInt>)]
    next_at: Option<Instant>,
}

/// The keys that hold jobs back, after this one.
pub(crate) fn rate_keys(
    conn: &mut SqliteConnection,
    after: Option<AfterKey>,
    most: usize,
) -> QueryResult<Vec<RateKey>> {
    let (mut after, mut keys) = (after.unwrap_or_default(), Vec::new());
    while keys.len() < most {
        let first: Option<First> = sql_query(format!(
            "select limit_name as name, limit_key as key, place,
                    (select next_at from jobs_rate r where r.limit_name = jobs_job.limit_name and r.limit_key = jobs_job.limit_key) as next_at
             from {HELD} and (limit_name, limit_key) > (?1, ?2)
             order by limit_name, limit_key, priority desc, due_at, id limit 1"
        ))
        .bind::<Text, _>(&after.0)
        .bind::<Text, _>(&after.1)
        .get_result(conn)
        .optional()?;
        let Some(First { name, key, place, next_at }) = first else { break };
        // A rule that is no rate: the row was changed by hand.
        if let Some(JobRule { rule, .. }) =
            serde_json::from_str(&place).ok().filter(|rule: &JobRule| rule.rule.is_rate())
        {
            let held = Held::of(conn, HELD, &name, &key)?;
            keys.push(RateKey {
                name: name.clone(),
                key: key.clone(),
                rule,
                held: held.count(),
                oldest: held.oldest(),
                next_token: next_at.map(|at| at.0),
            });
        }
        after = (name, key);
    }
    Ok(keys)
}
