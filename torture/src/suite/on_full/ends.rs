//! How the jobs have ended: as their handlers say, or because their limit was full.

use std::collections::HashMap;
use std::fmt;

use anyhow::Result;
use chrono::{DateTime, Utc};
use tokio_postgres::Client;
use torture::history::{Ending, Enqueued};

/// The most complaints of a sort.
const ENOUGH: usize = 10;
/// At least this many jobs must have ended in each way.
const FEW: usize = 10;

/// All jobs with a limit, in the order of their ids, with the number of times for which their limit is the stored
/// reason of their end.
const JOBS: &str = r#"select number, id, state, coalesce(rules #>> '{0,rule,concurrency,on_full}', 'wait'), rules #>> '{0,name}', rules #>> '{0,key}', enqueued_at, finished_at,
    lease > 0 or number in (select e.number from torture.event e),
    (select count(*) from jobs.job_error e where e.job_id = job.id and e.kind = 'cancelled' and e.message like 'its limit %')
from (
    select substring(args::text from '^\{"work":\{"number":(-?[0-9]+),')::bigint as number, * from jobs.job where rules is not null
) job order by id"#;

struct End {
    number: i64,
    id: i64,
    state: String,
    rule: String,
    limit: String,
    key: String,
    enqueued_at: DateTime<Utc>,
    finished_at: Option<DateTime<Utc>>,
    /// Whether it was ever claimed.
    has_started: bool,
    /// How often its rule has ended it.
    by_rule: i64,
}

impl End {
    /// What is wrong with this end by a rule.
    fn broken(&self, with_room: &str) -> Option<&'static str> {
        match (self.rule.as_str(), self.state.as_str()) {
            _ if self.by_rule > 1 => Some("its rule has ended it more than once"),
            _ if self.limit == with_room => Some("its limit had room"),
            ("discard", "discarded") if self.has_started => Some("it had started before"),
            ("discard", "discarded") | ("cancel_oldest", "cancelled") => None,
            _ => Some("its rule does not say so"),
        }
    }
}

/// The ends of all jobs.
pub(super) struct Ends(Vec<End>);

impl Ends {
    pub(super) async fn load(conn: &Client) -> Result<Self> {
        let end = |row: &tokio_postgres::Row| End {
            number: row.get(0),
            id: row.get(1),
            state: row.get(2),
            rule: row.get(3),
            limit: row.get(4),
            key: row.get(5),
            enqueued_at: row.get(6),
            finished_at: row.get(7),
            has_started: row.get(8),
            by_rule: row.get(9),
        };
        Ok(Self(conn.query(JOBS, &[]).await?.iter().map(end).collect()))
    }

    /// Jobs that a rule has ended need not end as they were to.
    pub(super) fn put_into(&self, ledger: &mut [Enqueued]) {
        let ended: HashMap<i64, &End> = self.by_rule().map(|end| (end.number, end)).collect();
        for row in ledger {
            if let Some(end) = ended.get(&row.number) {
                row.ends = if end.state == "discarded" { Ending::Discarded } else { Ending::CalledOff };
            }
        }
    }

    fn by_rule(&self) -> impl Iterator<Item = &End> {
        self.0.iter().filter(|end| end.by_rule > 0)
    }

    fn count(&self, which: impl Fn(&End) -> bool) -> usize {
        self.0.iter().filter(|end| which(end)).count()
    }

    /// `with_room`: the limit that is never full.
    pub(super) fn complaints(&self, with_room: &str) -> Vec<String> {
        let mut complaints: Vec<String> = Vec::new();
        for end in self.by_rule() {
            if let Some(what) = end.broken(with_room) {
                complaints.push(format!(
                    "{}{}: job {} is {} because its limit was full, and {what}",
                    end.limit, end.key, end.id, end.state
                ));
            }
        }
        complaints.extend(self.cancelled_for_nobody());
        complaints.truncate(ENOUGH);
        for (what, number) in [
            ("discarded", self.count(|end| end.by_rule > 0 && end.state == "discarded")),
            (
                "cancelled while they waited",
                self.count(|end| end.by_rule > 0 && end.state == "cancelled" && !end.has_started),
            ),
            (
                "cancelled after they had started",
                self.count(|end| end.by_rule > 0 && end.state == "cancelled" && end.has_started),
            ),
            ("completed with room", self.count(|end| end.limit == with_room && end.state == "completed")),
        ] {
            if number < FEW {
                complaints.push(format!("only {number} jobs were {what}: too little was tested"));
            }
        }
        complaints
    }

    /// A job is cancelled for a newer one of its key that has the same rule and was there.
    fn cancelled_for_nobody(&self) -> Vec<String> {
        let mut newer: HashMap<(&str, &str), DateTime<Utc>> = HashMap::new();
        let mut complaints = Vec::new();
        for end in self.0.iter().rev().filter(|end| end.rule == "cancel_oldest") {
            let earliest = newer.get(&(end.limit.as_str(), end.key.as_str())).copied();
            if end.by_rule > 0 && earliest.is_none_or(|earliest| end.finished_at.is_some_and(|ended| ended < earliest))
            {
                complaints.push(format!(
                    "{}{}: job {} was cancelled, and no newer job was there",
                    end.limit, end.key, end.id
                ));
            }
            let earliest = earliest.map_or(end.enqueued_at, |earliest| earliest.min(end.enqueued_at));
            newer.insert((end.limit.as_str(), end.key.as_str()), earliest);
        }
        complaints
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let discarded = self.count(|end| end.by_rule > 0 && end.state == "discarded");
        let cancelled = self.count(|end| end.by_rule > 0 && end.state == "cancelled");
        write!(f, "{discarded} discarded and {cancelled} cancelled by their rule")
    }
}
