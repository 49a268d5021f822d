//! The page of one queue, and that of one kind: what waits and runs, what was done, what fails, and who serves it. The
//! page of a kind is about the jobs that are stored under any of its names.

use askama::Template;
use diesel_jobs_core::history::WorkFilter;
use diesel_jobs_core::storage::{JobFilter, Pause, QueueOverview};
use diesel_jobs_core::{KindStats, WorkerRecord};

use super::failures::{self, Group};
use super::ranges::{Range, Tab, charts};
use super::{Visit, render};
use crate::changes;
use crate::chart::Chart;
use crate::failure::{Failure, Page};
use crate::figure::Figure;
use crate::format;
use crate::rights::Action;
use crate::sample::counted;
use crate::shell::{Place, Shell};

/// This many workers are named.
const WORKERS: usize = 20;

/// The jobs of a kind in a queue, as they were counted.
struct Row {
    /// The other one of queue and kind, and the address of its page.
    name: String,
    url: String,
    stats: KindStats,
    /// The filter of these jobs, in its textual form.
    filter: String,
}

impl Row {
    fn figure(&self, shell: &Shell, jobs: &i64, state: &str) -> Figure {
        Figure::new(format::exactly(*jobs), shell.jobs("q", &self.filter, state))
    }
}

#[derive(Template)]
#[template(path = "one.html")]
struct OnePage {
    shell: Shell,
    /// `Queue` or `Kind`, and what the rows are named after.
    what: &'static str,
    of: &'static str,
    name: String,
    /// Kinds have none, and neither has a queue whose jobs have all ended.
    queue: Option<QueueOverview>,
    paused: Option<Pause>,
    rows: Vec<Row>,
    counted: String,
    ranges: Vec<Tab>,
    charts: Vec<Chart>,
    failing: Vec<Group>,
    others_failing: usize,
    /// The live workers that serve it, each with its slots.
    workers: Vec<(WorkerRecord, String)>,
    more_workers: usize,
    schedules: Vec<String>,
    /// The other names of the kind.
    other_names: Vec<String>,
}

/// The name and the range of the address.
fn read(visit: &Visit) -> Result<(String, Range), Failure> {
    let pairs = visit.pairs();
    if let Some((other, _)) = pairs.iter().find(|(name, _)| name != "name" && name != "range") {
        return Err(Failure::Malformed(format!("There is no filter {other:?}. Write ?name=, and range= if you like.")));
    }
    let name = pairs.iter().rfind(|(name, _)| name == "name").map(|(_, value)| value.clone());
    let name = name.filter(|name| !name.is_empty());
    Ok((name.ok_or_else(|| Failure::Malformed("Write ?name= with a name.".to_owned()))?, Range::read(&pairs)?))
}

pub(crate) async fn queue(visit: Visit) -> Page {
    let (name, range) = read(&visit)?;
    let operator = visit.site.operator();
    let queue = operator.queue_overview().await?.into_iter().find(|queue| queue.name == name);
    let shell = visit.shell(Place::Queues, &format!("Queue {name}")).await?.live("/queues/one", &visit.query);
    let workers = operator.workers().await?.into_iter().filter(|worker| worker.alive && worker.serves(&name));
    let slots = |worker: WorkerRecord| {
        let slots = worker.slots_of(&name, queue.as_ref().and_then(|queue| queue.slots));
        (worker, slots.map_or_else(String::new, |slots| format::counted(slots as usize, "slot", "slots")))
    };
    let workers = workers.map(slots).collect();
    let filter = WorkFilter { queue: Some(name.clone()), kinds: Vec::new() };
    one(&visit, shell, (name, range), filter, (queue, workers)).await
}

pub(crate) async fn kind(visit: Visit) -> Page {
    let (name, range) = read(&visit)?;
    let shell = visit.shell(Place::Kinds, &format!("Kind {name}")).await?.live("/kinds/one", &visit.query);
    let kinds: Vec<String> = visit.site.redactor.names(&name).into_iter().map(str::to_owned).collect();
    let knows = |worker: &WorkerRecord| {
        worker.kinds.as_ref().is_some_and(|known| kinds.iter().any(|kind| known.contains(kind)))
    };
    let workers = visit.site.operator().workers().await?.into_iter().filter(|worker| worker.alive && knows(worker));
    let workers = workers.map(|worker| (worker, String::new())).collect();
    let filter = WorkFilter { queue: None, kinds };
    one(&visit, shell, (name, range), filter, (None, workers)).await
}

async fn one(
    visit: &Visit,
    mut shell: Shell,
    (name, range): (String, Range),
    filter: WorkFilter,
    (queue, mut workers): (Option<QueueOverview>, Vec<(WorkerRecord, String)>),
) -> Page {
    let (site, operator) = (&visit.site, visit.site.operator());
    let stats = operator.stats().await?;
    let (what, of, path, path_of) = match filter.queue {
        Some(_) => ("Queue", "Kind", "/queues/one", "/kinds/one"),
        None => ("Kind", "Queue", "/kinds/one", "/queues/one"),
    };
    let mut rows: Vec<Row> = Vec::new();
    for stats in stats.kinds {
        let kind = site.redactor.present_name(&stats.kind);
        let row = match &filter.queue {
            Some(queue) if *queue == stats.queue => kind,
            None if filter.kinds.contains(&stats.kind) => &stats.queue,
            _ => continue,
        };
        match rows.iter_mut().find(|known| known.name == *row) {
            // They are stored under another name of the kind.
            Some(known) => known.stats.add(&stats),
            None => {
                let of = JobFilter { queues: vec![stats.queue.clone()], ..JobFilter::of_kind(kind) };
                let url = shell.one(path_of, "name", row);
                rows.push(Row { name: row.to_owned(), url, filter: of.to_string(), stats });
            }
        }
    }
    let points = operator.series(range.range, range.step, &filter).await?;
    let (mut failing, mut others_failing, mut schedules, mut paused) = (Vec::new(), 0, Vec::new(), None);
    if filter.queue.is_none() {
        (failing, others_failing) = failures::newest(site, &shell, &filter.kinds).await?;
        let all = changes::schedules(site).await?;
        let of_kind = all.iter().filter(|schedule| filter.kinds.contains(&schedule.kind));
        schedules = of_kind.map(|schedule| schedule.name.clone()).collect();
        let mut settings = operator.kinds().await?.into_iter();
        paused = settings.find_map(|setting| setting.paused.filter(|_| filter.kinds.contains(&setting.name)));
    }
    let paused = queue.as_ref().map_or(paused, |queue| queue.paused.clone());
    if paused.is_some() {
        "paused".clone_into(&mut shell.alert);
    }
    let ranges = range.tabs(|range| shell.base.with(path, [("name", name.as_str()), ("range", range)]));
    let more_workers = workers.len().saturating_sub(WORKERS);
    workers.truncate(WORKERS);
    render(&OnePage {
        what,
        of,
        queue,
        paused,
        rows,
        counted: counted(&stats.counted),
        ranges,
        charts: charts(&points, range.step),
        failing,
        others_failing,
        workers,
        more_workers,
        schedules,
        other_names: filter.kinds.into_iter().filter(|other| *other != name).collect(),
        name,
        shell,
    })
}
