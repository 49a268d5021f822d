//! Actions on a queue.

use async_trait::async_trait;
use diesel_jobs_core::storage::MOST_SLOTS;

use super::{Act, Done, Form, Preview};
use crate::failure::Failure;
use crate::field::{Field, Mistake};
use crate::link::encode;
use crate::rights::Action;
use crate::site::Site;

/// What can be done with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Pause,
    Resume,
    /// A pause, with a page that shows how many jobs still run.
    Drain,
    Slots,
}

impl Verb {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "queue-pause" => Some(Self::Pause),
            "queue-resume" => Some(Self::Resume),
            "queue-drain" => Some(Self::Drain),
            "queue-slots" => Some(Self::Slots),
            _ => None,
        }
    }
}

/// An action on this queue.
#[derive(Debug)]
pub(crate) struct OnQueue {
    verb: Verb,
    name: String,
    reason: Option<String>,
    /// `None`: as the workers were started.
    slots: Option<u32>,
}

impl OnQueue {
    pub(super) fn read(verb: Verb, form: &Form, is_asked: bool) -> Result<Self, Failure> {
        let slots = form.given("slots").filter(|_| !is_asked).map(|text| {
            let wrong = || {
                let allowed = format!("write a number from 0 to {MOST_SLOTS}, or nothing");
                Mistake::of("slots", &format!("{text:?} is not a number of slots: {allowed}"))
            };
            text.parse().ok().filter(|slots| *slots <= MOST_SLOTS).ok_or_else(wrong)
        });
        Ok(Self { verb, name: form.name("queue")?, reason: form.reason(is_asked)?, slots: slots.transpose()? })
    }
}

#[async_trait]
impl Act for OnQueue {
    fn right(&self) -> Action {
        match self.verb {
            Verb::Pause | Verb::Resume | Verb::Drain => Action::Pause,
            Verb::Slots => Action::Slots,
        }
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let Self { verb, name, .. } = self;
        let settings = site.operator().queues().await?.into_iter().find(|queue| queue.name == *name);
        let paused = settings.as_ref().and_then(|settings| settings.paused.clone());
        let notes: Vec<_> = paused.iter().map(|pause| format!("It is {pause}.")).collect();
        let preview = Preview { notes, back: site.base.to("/queues"), ..Preview::default() };
        Ok(match verb {
            Verb::Pause => Preview {
                question: format!("Pause the queue {name}?"),
                effect:
                    "No worker claims its jobs until it is resumed. Jobs that run continue. Jobs can still be enqueued."
                        .to_owned(),
                button: if paused.is_none() { "Pause".to_owned() } else { String::new() },
                fields: vec![Field::reason()],
                ..preview
            },
            Verb::Resume => Preview {
                question: format!("Resume the queue {name}?"),
                effect: "Workers claim its jobs within a second.".to_owned(),
                button: if paused.is_some() { "Resume".to_owned() } else { String::new() },
                ..preview
            },
            Verb::Drain => Preview {
                question: format!("Drain the queue {name}?"),
                effect: "The queue is paused: no worker claims its jobs until it is resumed. Jobs that run continue, and a page shows \
                         how many still run. Waiting jobs stay in the queue."
                    .to_owned(),
                button: "Drain".to_owned(),
                fields: vec![Field::reason()],
                ..preview
            },
            Verb::Slots => Preview {
                question: format!("How many jobs of {name} does each worker run at once?"),
                effect: "Workers follow within a second. Jobs that run are not stopped.".to_owned(),
                button: "Set".to_owned(),
                fields: vec![
                    Field::line("slots", "Slots", "Empty: as many as each worker was started with.")
                        .optional()
                        .holding(settings.and_then(|it| it.slots).map(|slots| slots.to_string()).unwrap_or_default()),
                ],
                ..preview
            },
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        let Self { verb, name, reason, slots } = self;
        match verb {
            Verb::Pause | Verb::Drain => site.operator().pause_queue(name, actor, reason.as_deref()).await?,
            Verb::Resume => site.operator().resume_queue(name, actor).await?,
            Verb::Slots => site.operator().set_slots(name, *slots, actor).await?,
        };
        if *verb == Verb::Drain {
            return Ok(Done::Page(format!("/queues/drain?{}", encode([("queue", name.as_str())]))));
        }
        // If another operator has done it before, the page shows that.
        Ok(Done::Page("/queues".to_owned()))
    }
}
