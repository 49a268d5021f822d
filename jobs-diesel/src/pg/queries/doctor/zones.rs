//! By which rules the server computes the time in a time zone.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Array, Integer, Nullable, Text, Timestamptz};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::health_checks::{OtherRules, ZoneOffset};

/// `$1` are zones, `$2` times and `$3` the offsets that are expected there. Returns the first wrong one of each zone.
/// A zone that the server does not know is not computed with, because that would be an error. SQL reads a few names,
/// such as CET, as an abbreviation of a fixed offset, so they say nothing about the rules.
const DIFFER: &str = "
with ours as (
    select * from unnest($1, $2, $3) as ours (zone, at, seconds)
), known as (
    select zone, exists (select from pg_timezone_names name where name.name = zone) as is_known
    from (select distinct zone from ours) as zones
    where not exists (select from pg_timezone_abbrevs short where short.abbrev = upper(zone))
)
select distinct on (zone) zone, at, seconds, theirs
from ours join known using (zone)
cross join lateral (
    select case when is_known then extract(epoch from (at at time zone zone) - (at at time zone 'UTC'))::integer end as theirs
) as server
where theirs is distinct from seconds
order by zone, at";

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    zone: String,
    #[diesel(sql_type = Timestamptz)]
    at: DateTime<Utc>,
    #[diesel(sql_type = Integer)]
    seconds: i32,
    #[diesel(sql_type = Nullable<Integer>)]
    theirs: Option<i32>,
}

pub(crate) async fn other_rules(conn: &mut AsyncPgConnection, ours: &[ZoneOffset]) -> QueryResult<Vec<OtherRules>> {
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let zones: Vec<&str> = ours.iter().map(|offset| offset.zone.as_str()).collect();
    let times: Vec<DateTime<Utc>> = ours.iter().map(|offset| offset.at).collect();
    let seconds: Vec<i32> = ours.iter().map(|offset| offset.seconds).collect();
    let rows: Vec<Row> = sql_query(DIFFER)
        .bind::<Array<Text>, _>(zones)
        .bind::<Array<Timestamptz>, _>(times)
        .bind::<Array<Integer>, _>(seconds)
        .load(conn)
        .await?;
    let other = |Row { zone, at, seconds, theirs }| OtherRules { ours: ZoneOffset { zone, at, seconds }, theirs };
    Ok(rows.into_iter().map(other).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use chrono::TimeDelta;
    use diesel_async::AsyncConnection as _;

    use super::*;
    use crate::pg::tests::url;

    /// Zones whose rules never change, so that the test does not depend on the versions of both.
    #[tokio::test]
    async fn the_first_wrong_offset_of_each_zone_is_found() {
        let mut conn = AsyncPgConnection::establish(&url("postgres")).await.unwrap();
        let start = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let offset = |zone: &str, day: i64, seconds| ZoneOffset {
            zone: zone.to_owned(),
            at: start + TimeDelta::days(day),
            seconds,
        };
        let right = [offset("Etc/GMT-1", 0, 3600), offset("Etc/GMT+5", 0, -18_000), offset("Asia/Kolkata", 9, 19_800)];
        assert_eq!(other_rules(&mut conn, &right).await.unwrap(), []);
        assert_eq!(other_rules(&mut conn, &[]).await.unwrap(), []);
        // In SQL it is an hour ahead of UTC all year.
        assert_eq!(other_rules(&mut conn, &[offset("CET", 0, 7200)]).await.unwrap(), []);
        let wrong = [
            offset("Etc/GMT-1", 0, 3600),
            offset("Etc/GMT-1", 2, 7200),
            offset("Etc/GMT-1", 1, 0),
            offset("Mars/Base", 3, 0),
            offset("Mars/Base", 2, 60),
        ];
        let others = other_rules(&mut conn, &wrong).await.unwrap();
        assert_eq!(
            others,
            [
                OtherRules { ours: offset("Etc/GMT-1", 1, 0), theirs: Some(3600) },
                OtherRules { ours: offset("Mars/Base", 2, 60), theirs: None },
            ]
        );
    }
}
