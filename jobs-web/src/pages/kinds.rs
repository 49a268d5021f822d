//! The kinds: how many jobs of each there are, how they end, and which no live worker knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askama::Template;
use diesel_jobs_core::KindStats;
use diesel_jobs_core::history::KindRate;
use diesel_jobs_core::storage::{KindSettings, Pause};

use super::{Visit, render};
use crate::failure::Page;
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

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
}

impl Kind {
    fn an_hour(number: u64) -> String {
        format::count(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

#[derive(Template)]
#[template(path = "kinds.html")]
struct KindsPage {
    shell: Shell,
    kinds: Vec<Kind>,
}

fn join(stats: &[KindStats], rates: Vec<KindRate>, settings: Vec<KindSettings>) -> Vec<Kind> {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for row in stats {
        let kind = kinds.entry(row.kind.clone()).or_default();
        kind.queues.insert(row.queue.clone());
        kind.waiting += row.available + row.scheduled + row.retrying;
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
    for (name, kind) in &mut kinds {
        kind.name.clone_from(name);
    }
    kinds.into_values().collect()
}

pub(crate) async fn kinds(visit: Visit) -> Page {
    let shell = visit.shell(Place::Kinds, "Kinds").await?.live("/kinds", &visit.query);
    let operator = visit.site.operator();
    let (stats, settings) = (operator.stats().await?, operator.kinds().await?);
    let rates = operator.rates(HOUR).await?;
    render(&KindsPage { shell, kinds: join(&stats.kinds, rates, settings) })
}
