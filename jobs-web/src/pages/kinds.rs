//! The kinds: how many jobs of each there are, how they end, and which no live worker knows.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askama::Template;

use diesel_jobs_core::history::KindRate;
use diesel_jobs_core::storage::{KindSettings, Pause};
use diesel_jobs_core::{KindStats, WorkerRecord};

use super::{Visit, render};
use crate::failure::Page;
use crate::format;
use crate::names::Names;
use crate::redact::Redactor;
use crate::rights::Action;
use crate::sample::counted;
use crate::shell::{Place, Shell};

/// The states of the jobs that wait, as a filter names them.
const WAITING: &str = "available,scheduled,retrying,held";
/// Rates are those of this time.
const HOUR: Duration = Duration::from_secs(3600);

/// A kind.
#[derive(Default)]
struct Kind {
    name: String,
    queues: BTreeSet<String>,
    waiting: i64,
    running: i64,
    completed: i64,
    discarded: i64,
    paused: Option<Pause>,
    /// Of the last hour.
    completed_an_hour: u64,
    failed_an_hour: u64,
    /// How many live workers know it. And how many may know it: workers of an earlier version do not store their kinds.
    known_to: usize,
    perhaps: usize,
    /// How many of its jobs wait under a name that no live worker knows.
    unknown: i64,
}

impl Kind {
    /// Adds what is known of another name of the kind.
    fn add(&mut self, other: Self) {
        self.queues.extend(other.queues);
        self.waiting += other.waiting;
        self.running += other.running;
        self.completed += other.completed;
        self.discarded += other.discarded;
        self.paused = self.paused.take().or(other.paused);
        self.completed_an_hour += other.completed_an_hour;
        self.failed_an_hour += other.failed_an_hour;
        // Workers of an older program know only the older name.
        self.known_to = self.known_to.min(other.known_to);
        self.unknown += other.unknown;
    }

    fn an_hour(number: u64) -> String {
        format::count(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

#[derive(Template)]
#[template(path = "kinds.html")]
struct KindsPage {
    shell: Shell,
    names: Names,
    here: String,
    kinds: Vec<Kind>,
    /// How many workers are alive.
    alive: usize,
    /// When jobs were counted by kind.
    counted: String,
}

/// Puts together what is known under each name. A kind that only a worker knows is listed, too.
fn join(stats: &[KindStats], rates: Vec<KindRate>, settings: Vec<KindSettings>, workers: &[WorkerRecord]) -> Vec<Kind> {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for row in stats {
        let kind = kinds.entry(row.kind.clone()).or_default();
        kind.queues.insert(row.queue.clone());
        kind.waiting += row.available + row.scheduled + row.retrying + row.held;
        kind.running += row.running;
        kind.completed += row.completed;
        kind.discarded += row.discarded;
    }
    for rate in rates {
        let kind = kinds.entry(rate.kind).or_default();
        kind.queues.insert(rate.queue);
        kind.completed_an_hour += rate.work.completed;
        kind.failed_an_hour += rate.work.retried + rate.work.discarded;
    }
    for setting in settings {
        kinds.entry(setting.name).or_default().paused = setting.paused;
    }
    let mut perhaps = 0;
    for worker in workers.iter().filter(|worker| worker.alive) {
        match &worker.kinds {
            Some(known) => known.iter().for_each(|name| kinds.entry(name.clone()).or_default().known_to += 1),
            None => perhaps += 1,
        }
    }
    for (name, kind) in &mut kinds {
        kind.name.clone_from(name);
        kind.perhaps = perhaps;
        kind.unknown = if kind.known_to + perhaps == 0 { kind.waiting } else { 0 };
    }
    kinds.into_values().collect()
}

/// Puts the names of each kind together.
fn by_present_name(stored: Vec<Kind>, redactor: &Redactor) -> Vec<Kind> {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for kind in stored {
        let name = redactor.present_name(&kind.name).to_owned();
        match kinds.entry(name.clone()) {
            Entry::Occupied(mut known) => known.get_mut().add(kind),
            Entry::Vacant(place) => {
                place.insert(Kind { name, ..kind });
            }
        }
    }
    kinds.into_values().collect()
}

pub(crate) async fn kinds(visit: Visit) -> Page {
    let mut names = Names::read(&visit.pairs())?;
    let shell = visit.shell(Place::Kinds, "Kinds").await?.live("/kinds", &visit.query);
    let operator = visit.site.operator();
    let (stats, settings, workers) = (operator.stats().await?, operator.kinds().await?, operator.workers().await?);
    let rates = operator.outcomes(HOUR).await?;
    let stored = join(&stats.kinds, rates, settings, &workers);
    let mut kinds = by_present_name(stored, &visit.site.redactor);
    // Unknown kinds first, because an operator must do something about them.
    kinds.sort_by_key(|kind| kind.unknown == 0);
    names.choose(&mut kinds, |kind| &kind.name);
    let alive = workers.iter().filter(|worker| worker.alive).count();
    let (here, counted) = (shell.link("/kinds"), counted(&stats.counted));
    render(&KindsPage { shell, names, here, kinds, alive, counted })
}
