//! A queue that is being emptied of running jobs: how many still run.

use askama::Template;
use diesel_jobs_core::LeasedJob;
use diesel_jobs_core::storage::Pause;

use super::{Visit, render};
use crate::failure::{Failure, Page};
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// How many running jobs are shown.
const SHOWN: usize = 20;

#[derive(Template)]
#[template(path = "drain.html")]
struct DrainPage {
    shell: Shell,
    name: String,
    paused: Option<Pause>,
    running: i64,
    jobs: Vec<LeasedJob>,
}

pub(crate) async fn drain(visit: Visit) -> Page {
    let name = match visit.pairs().as_slice() {
        [(field, name)] if field == "queue" && !name.is_empty() => name.clone(),
        _ => return Err(Failure::Malformed("Write ?queue=mail, with the name of a queue.".to_owned())),
    };
    let shell = visit.shell(Place::Queues, &format!("Drain {name}")).await?.live("/queues/drain", &visit.query);
    let operator = visit.site.operator();
    let settings = operator.queues().await?.into_iter().find(|queue| queue.name == name);
    let running = i64::try_from(operator.running_in(&name).await?).unwrap_or(i64::MAX);
    let jobs = if running > 0 { operator.leased(Some(&name), SHOWN).await? } else { Vec::new() };
    render(&DrainPage { shell, name, paused: settings.and_then(|settings| settings.paused), running, jobs })
}
