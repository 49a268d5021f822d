//! Actions on a kind.

use async_trait::async_trait;

use super::{Act, Done, Form, Preview};
use crate::failure::Failure;
use crate::field::Field;
use crate::rights::Action;
use crate::site::Site;

/// What can be done with a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Pause,
    Resume,
}

impl Verb {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "kind-pause" => Some(Self::Pause),
            "kind-resume" => Some(Self::Resume),
            _ => None,
        }
    }
}

/// An action on this kind.
#[derive(Debug)]
pub(crate) struct OnKind {
    verb: Verb,
    name: String,
    reason: Option<String>,
}

impl OnKind {
    pub(super) fn read(verb: Verb, form: &Form, is_asked: bool) -> Result<Self, Failure> {
        Ok(Self { verb, name: form.name("kind")?, reason: form.reason(is_asked)? })
    }
}

#[async_trait]
impl Act for OnKind {
    fn right(&self) -> Action {
        Action::Pause
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let name = &self.name;
        let names = site.redactor.names(name);
        let settings = site.operator().kinds().await?.into_iter();
        let paused = settings.filter(|kind| names.contains(&kind.name.as_str())).find_map(|kind| kind.paused);
        let others: Vec<&str> = names.into_iter().filter(|other| other != name).collect();
        let others = (!others.is_empty())
            .then(|| format!("Its jobs are also stored under {}, which is treated the same.", others.join(" and ")));
        let notes: Vec<_> = paused.iter().map(|pause| format!("It is {pause}.")).chain(others).collect();
        let preview = Preview { notes, back: site.base.to("/kinds"), ..Preview::default() };
        Ok(match self.verb {
            Verb::Pause => Preview {
                question: format!("Pause the kind {name}?"),
                effect: "Workers claim none of its jobs until it is resumed. Jobs that run continue.".to_owned(),
                button: if paused.is_none() { "Pause".to_owned() } else { String::new() },
                fields: vec![Field::reason()],
                ..preview
            },
            Verb::Resume => Preview {
                question: format!("Resume the kind {name}?"),
                effect: "Workers claim its jobs within a second.".to_owned(),
                button: if paused.is_some() { "Resume".to_owned() } else { String::new() },
                ..preview
            },
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        for name in site.redactor.names(&self.name) {
            match self.verb {
                Verb::Pause => site.operator().pause_kind(name, actor, self.reason.as_deref()).await?,
                Verb::Resume => site.operator().resume_kind(name, actor).await?,
            };
        }
        Ok(Done::Page("/kinds".to_owned()))
    }
}
