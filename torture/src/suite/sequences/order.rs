//! The order in which the jobs of sequences have started and ended, from the record.

use std::collections::BTreeMap;

use anyhow::Result;
use chrono::{DateTime, Utc};
use tokio_postgres::Client;

use super::skipping::Halt;

/// The most complaints of a sort.
const ENOUGH: usize = 10;

/// For each job, when its first attempt started, and when its last one ended. A worker that was suspended, or a claim
/// that the server forgot in a crash, adds starts under other leases, but none before the job's turn. So the first
/// start counts under whatever lease, and the end under the lease that ended the job. A transactional finish stores the
/// time at which its transaction began, so the handler's own word counts, too.
const ORDER: &str = "select j.id, j.rules #>> '{0,name}', j.rules #>> '{0,key}', j.state, j.rules #>> '{0,rule,sequence,on_discard}', j.finished_at,
    (select min(e.at) from torture.event e where e.job = j.id and e.what = 'start'),
    (select max(e.at) from torture.event e where e.job = j.id and e.lease = j.lease and e.worker = j.worker)
from jobs.job j where j.rules is not null order by j.id";

/// One job.
struct Turn {
    job: i64,
    is_halt: bool,
    started: Option<DateTime<Utc>>,
    ended: Option<DateTime<Utc>>,
}

/// The jobs of each sequence, by name and key, in the order of their ids.
pub(super) struct Order(BTreeMap<(String, String), Vec<Turn>>);

impl Order {
    pub(super) async fn load(conn: &Client) -> Result<Self> {
        let mut order = BTreeMap::<_, Vec<Turn>>::new();
        for row in conn.query(ORDER, &[]).await? {
            let (state, sequence): (String, String) = (row.get(3), row.get(4));
            let (finished, said): (Option<DateTime<Utc>>, Option<DateTime<Utc>>) = (row.get(5), row.get(7));
            order.entry((row.get(1), row.get(2))).or_default().push(Turn {
                job: row.get(0),
                is_halt: state == "discarded" && sequence == "halt",
                started: row.get(6),
                ended: finished.map(|finished| said.map_or(finished, |said| said.max(finished))),
            });
        }
        Ok(Self(order))
    }

    /// The jobs of the sequences with the name `in_order` start in the order of their ids, and no two jobs of any
    /// sequence overlap. In those with the name `overtaken`, a transaction that commits late may bring a lower id than
    /// those that have started.
    pub(super) fn complaints(&self, in_order: &str, overtaken: &str) -> Vec<String> {
        let (mut complaints, mut compared) = (Vec::new(), [0, 0]);
        for ((name, key), jobs) in &self.0 {
            let mut jobs: Vec<&Turn> = jobs.iter().filter(|job| job.started.is_some()).collect();
            if name == overtaken {
                jobs.sort_by_key(|job| job.started);
            }
            for pair in jobs.windows(2) {
                compared[usize::from(name != in_order)] += 1;
                if pair[0].ended > pair[1].started {
                    complaints.push(format!(
                        "{name}{key}: job {} started at {:?}, before job {} had ended at {:?}",
                        pair[1].job, pair[1].started, pair[0].job, pair[0].ended
                    ));
                }
            }
        }
        if compared.contains(&0) {
            complaints.push("no two jobs of a sequence could be compared: nothing was tested".to_owned());
        }
        complaints.truncate(ENOUGH);
        complaints
    }

    /// Between the end of a discarded job and the skip of its sequence, no other job of the sequence starts. Each
    /// discarded job of such a sequence has halted it.
    pub(super) fn halted_in_vain(&self, halts: &[Halt]) -> Vec<String> {
        let mut complaints = Vec::new();
        for ((name, key), jobs) in &self.0 {
            for discarded in jobs.iter().filter(|job| job.is_halt) {
                let Some(halt) = halts.iter().find(|halt| halt.job == discarded.job) else {
                    complaints.push(format!("{name}{key}: job {} was discarded, and halted nothing", discarded.job));
                    continue;
                };
                let meanwhile = |job: &&Turn| job.started > discarded.ended && job.started < Some(halt.until);
                if let Some(early) = jobs.iter().find(meanwhile) {
                    complaints.push(format!(
                        "{name}{key}: job {} started at {:?}, while job {} halted its sequence until {}",
                        early.job, early.started, discarded.job, halt.until
                    ));
                }
            }
        }
        if halts.is_empty() {
            complaints.push("no sequence was halted: nothing was tested".to_owned());
        }
        complaints.truncate(ENOUGH);
        complaints
    }
}
