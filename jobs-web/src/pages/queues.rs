//! The queues: how much waits, who serves them, and what operators have set.

use std::time::Duration;

use askama::Template;
use diesel_jobs_core::storage::QueueOverview;

use super::{Visit, render};
use crate::chart::Spark;
use crate::failure::Page;
use crate::format;
use crate::names::Names;
use crate::rights::Action;
use crate::shell::{Place, Shell};

const HOUR: Duration = Duration::from_secs(3600);
const STEP: Duration = Duration::from_secs(120);

/// A queue, and what was completed in the last hour.
struct Row {
    queue: QueueOverview,
    spark: Option<Spark>,
}

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    shell: Shell,
    names: Names,
    here: String,
    rows: Vec<Row>,
}

pub(crate) async fn queues(visit: Visit) -> Page {
    let mut names = Names::read(&visit.pairs())?;
    let shell = visit.shell(Place::Queues, "Queues").await?.live("/queues", &visit.query);
    let operator = visit.site.operator();
    let mut queues = operator.queue_overview().await?;
    names.choose(&mut queues, |queue| &queue.name);
    let shown: Vec<String> = queues.iter().map(|queue| queue.name.clone()).collect();
    let mut rows: Vec<Row> = queues.into_iter().map(|queue| Row { queue, spark: None }).collect();
    for rates in operator.queue_rates(&shown, HOUR, STEP).await? {
        let values: Vec<_> = rates.completed_per_minute.into_iter().map(Some).collect();
        // Both are in the order of the names.
        if let Ok(at) = rows.binary_search_by(|row| row.queue.name.cmp(&rates.queue)) {
            rows[at].spark = Some(Spark::new("Completed in the last hour", &values));
        }
    }
    let here = shell.link("/queues");
    render(&QueuesPage { shell, names, here, rows })
}
