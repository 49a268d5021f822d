//! The answers to the enqueues of the rivals, and whether they were true.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use anyhow::Result;
use diesel_jobs::Enqueued;
use tokio_postgres::Client;
use torture::history::{CommitOutcome, Record};
use torture::workload::keyed::{Keeping, WorkKey};

/// The most complaints of a sort.
const ENOUGH: usize = 5;

/// The answer to one enqueue.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) key: WorkKey,
    /// The number in the arguments of this job, and of no other. The later numbers of a rival are larger.
    pub(super) version: i64,
    /// Whether no other rival has the key.
    pub(super) is_own: bool,
    pub(super) outcome: CommitOutcome,
    /// `None` if the connection was lost.
    pub(super) enqueued: Option<Enqueued>,
}

impl Answer {
    pub(super) fn is_new(&self) -> bool {
        self.enqueued.is_some_and(Enqueued::is_new)
    }

    /// The job, if the commit was acknowledged.
    fn committed(&self) -> Option<Enqueued> {
        self.enqueued.filter(|_| self.outcome == CommitOutcome::Acknowledged)
    }
}

/// All answers, and the errors that no lost connection has caused.
#[derive(Debug, Default)]
pub(super) struct Told {
    answers: Vec<Answer>,
    refusals: Vec<String>,
}

impl Told {
    pub(super) fn push(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    pub(super) fn refused(&mut self, error: String) {
        self.refusals.push(error);
    }

    pub(super) fn newest(&self) -> Option<&Answer> {
        self.answers.last()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.answers.extend(other.answers);
        self.refusals.extend(other.refusals);
    }

    /// The numbers of the keys of a rule.
    pub(super) fn keys(&self, rule: usize) -> BTreeSet<i64> {
        self.answers.iter().filter(|answer| answer.key.rule == rule).map(|answer| answer.key.number).collect()
    }

    pub(super) async fn complaints(&self, conn: &Client, record: &Record) -> Result<Vec<String>> {
        let mut complaints: Vec<String> =
            self.refusals.iter().take(ENOUGH).map(|error| format!("an enqueue failed: {error}")).collect();
        let rows = conn.query("select id, state from jobs.job where kind = 'keyed'", &[]).await?;
        let states: BTreeMap<i64, String> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut newest = HashMap::<i64, i64>::new();
        for event in record.events.iter().filter(|event| event.what == "start") {
            let version = newest.entry(event.job).or_insert(event.number);
            *version = event.number.max(*version);
        }
        complaints.extend(self.answers.iter().filter_map(|answer| answer.broken(&states, &newest)).take(ENOUGH));
        complaints.extend(self.phantoms(record).into_iter().take(ENOUGH));
        complaints.extend(self.strangers(&states));
        for (rule, keeping) in Keeping::ALL.into_iter().enumerate() {
            let of = |how: fn(Enqueued) -> bool| {
                self.answers
                    .iter()
                    .filter(|answer| answer.key.rule == rule && answer.committed().is_some_and(how))
                    .count()
            };
            let (new, existing, replaced) =
                (of(Enqueued::is_new), of(Enqueued::is_existing), of(Enqueued::is_replaced));
            if new == 0 || if keeping.replaces() { replaced == 0 } else { existing == 0 } {
                complaints.push(format!(
                    "{}: {new} new jobs, {existing} existing ones, {replaced} replaced ones: nothing was tested",
                    keeping.name()
                ));
            }
        }
        Ok(complaints)
    }

    /// What was rolled back never runs.
    fn phantoms(&self, record: &Record) -> Vec<String> {
        let rolled_back = self.answers.iter().filter(|answer| answer.outcome == CommitOutcome::RolledBack);
        let rolled_back: HashSet<i64> = rolled_back.map(|answer| answer.version).collect();
        let ran = record.events.iter().filter(|event| rolled_back.contains(&event.number));
        ran.map(|event| format!("job {} ran with version {}, which was rolled back", event.job, event.number)).collect()
    }

    /// A job that is in no answer can only come from a transaction whose outcome is unknown.
    fn strangers(&self, states: &BTreeMap<i64, String>) -> Option<String> {
        let told: HashSet<i64> =
            self.answers.iter().filter_map(|answer| Some(answer.committed().filter(|it| it.is_new())?.0)).collect();
        let unknown = self.answers.iter().filter(|answer| answer.outcome == CommitOutcome::Unknown).count();
        let strangers = states.keys().filter(|id| !told.contains(id)).count();
        (strangers > unknown)
            .then(|| format!("{strangers} jobs exist that nobody was told of, and {unknown} answers were lost"))
    }
}

impl Answer {
    /// Returns a text if the job of an acknowledged answer has not ended, or has not run with the newest arguments.
    fn broken(&self, states: &BTreeMap<i64, String>, newest: &HashMap<i64, i64>) -> Option<String> {
        let enqueued = self.committed()?;
        let Some(state) = states.get(&enqueued.0) else { return Some(format!("{self:?}: there is no such job")) };
        if state != "completed" {
            return Some(format!("{self:?}: the job is {state}"));
        }
        if self.is_own && !enqueued.is_existing() && newest.get(&enqueued.0).is_none_or(|ran| *ran < self.version) {
            return Some(format!("{self:?}: the job ran with version {:?} at last", newest.get(&enqueued.0)));
        }
        None
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: BTreeSet<_> = self.answers.iter().map(|answer| answer.key).collect();
        let jobs = self.answers.iter().filter(|answer| answer.committed().is_some_and(Enqueued::is_new)).count();
        write!(f, "{} enqueues of {} keys, {jobs} jobs", self.answers.len(), keys.len())
    }
}
