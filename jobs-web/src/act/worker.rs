//! Actions on a worker.

use async_trait::async_trait;
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::Asked;

use super::{Act, Done, Form, Preview, Report};
use crate::failure::Failure;
use crate::rights::Action;
use crate::site::Site;

/// What can be asked of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Quiet,
    Stop,
}

impl Verb {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "worker-quiet" => Some(Self::Quiet),
            "worker-stop" => Some(Self::Stop),
            _ => None,
        }
    }
}

/// An action on this worker.
#[derive(Debug)]
pub(crate) struct OnWorker {
    verb: Verb,
    id: WorkerId,
}

impl OnWorker {
    pub(super) fn read(verb: Verb, form: &Form) -> Result<Self, Failure> {
        let name = form.name("worker")?;
        let id = name.parse().map_err(|_| Failure::Malformed(format!("{name:?} is not the id of a worker.")))?;
        Ok(Self { verb, id: WorkerId(id) })
    }
}

#[async_trait]
impl Act for OnWorker {
    fn right(&self) -> Action {
        Action::Workers
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let worker = site.operator().workers().await?.into_iter().find(|worker| worker.id == self.id);
        let Some(worker) = worker else {
            return Err(Failure::NotFound(format!("Worker {} no longer exists.", self.id)));
        };
        let name = format!("{} (process {})", worker.host, worker.pid);
        let (question, effect, button) = match self.verb {
            Verb::Quiet => (
                format!("Stop the worker on {name} from claiming jobs?"),
                "It finishes its running jobs, and then stays idle.",
                "Quiet",
            ),
            Verb::Stop => (
                format!("Stop the worker on {name}?"),
                "It shuts down as after SIGTERM: it finishes the jobs that it can within its grace period, and releases the rest. \
                 A supervisor may start it again.",
                "Stop",
            ),
        };
        let asked = worker.asked.map(|asked| format!("It was asked before: {}.", asked.as_str()));
        let gone = (!worker.alive).then(|| {
            let at = worker.heartbeat_at.format("%Y-%m-%d %H:%M:%S UTC");
            format!("Its last heartbeat came at {at}, longer ago than its lease. Other workers run its jobs again.")
        });
        Ok(Preview {
            question,
            effect: effect.to_owned(),
            button: button.to_owned(),
            notes: asked.into_iter().chain(gone).collect(),
            destroys: self.verb == Verb::Stop,
            back: site.base.to("/workers"),
            ..Preview::default()
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        let asked = match self.verb {
            Verb::Quiet => Asked::Quiet,
            Verb::Stop => Asked::Stop,
        };
        if site.operator().ask_worker(self.id, asked, actor).await? {
            return Ok(Done::Page("/workers".to_owned()));
        }
        Ok(Done::Report(Report {
            title: "Nothing was changed".to_owned(),
            lines: vec![format!("Worker {} no longer exists.", self.id)],
            links: vec![(site.base.to("/workers"), "Workers".to_owned())],
            ..Report::default()
        }))
    }
}
