//! Actions on a limit.

use async_trait::async_trait;
use diesel_jobs_core::MOST_AT_ONCE;

use super::{Act, Done, Form, Preview};
use crate::failure::Failure;
use crate::field::{Field, Mistake};
use crate::rights::Action;
use crate::site::Site;

/// What can be done with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Set,
    Reset,
}

impl Verb {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "limit-set" => Some(Self::Set),
            "limit-reset" => Some(Self::Reset),
            _ => None,
        }
    }
}

/// An action on this limit.
#[derive(Debug)]
pub(crate) struct OnLimit {
    verb: Verb,
    name: String,
    /// How many jobs of each key run at once. 0 if the form is not filled in yet.
    most: u32,
    reason: Option<String>,
}

impl OnLimit {
    pub(super) fn read(verb: Verb, form: &Form, is_asked: bool) -> Result<Self, Failure> {
        let text = form.get("most").trim();
        let most = match verb {
            Verb::Set if !is_asked => {
                let wrong = || format!("{text:?} is not a number of jobs: write a number from 0 to {MOST_AT_ONCE}");
                let most = text.parse().ok().filter(|most| *most <= MOST_AT_ONCE);
                most.ok_or_else(|| Mistake::of("most", &wrong()))?
            }
            _ => 0,
        };
        Ok(Self { verb, name: form.name("limit")?, most, reason: form.reason(is_asked)? })
    }
}

#[async_trait]
impl Act for OnLimit {
    fn right(&self) -> Action {
        Action::Limits
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let name = &self.name;
        let set = site.operator().limit_settings().await?.into_iter().find(|setting| setting.name == *name);
        let notes: Vec<_> = set.iter().map(|set| format!("It is {set}.")).collect();
        let preview = Preview { notes, back: site.base.to("/limits"), ..Preview::default() };
        Ok(match self.verb {
            Verb::Set => Preview {
                question: format!("How many jobs of each key of the limit {name} run at once?"),
                effect: "Within a second this number applies instead of the one in the code, including to jobs that wait already, until it is \
                         reset. Jobs that are available or running continue."
                    .to_owned(),
                button: "Set".to_owned(),
                fields: vec![
                    Field::line("most", "Jobs at once", "From 0 to 10000, for each key. With 0 none starts.")
                        .holding(set.map(|set| set.most.to_string()).unwrap_or_default()),
                    Field::reason(),
                ],
                ..preview
            },
            Verb::Reset => Preview {
                question: format!("Go back to the number in the code for the limit {name}?"),
                effect: "The number that was set is removed.".to_owned(),
                button: if set.is_some() { "Reset".to_owned() } else { String::new() },
                ..preview
            },
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        match self.verb {
            Verb::Set => site.operator().set_limit(&self.name, self.most, actor, self.reason.as_deref()).await?,
            Verb::Reset => site.operator().reset_limit(&self.name, actor).await?,
        };
        // If another operator has done it before, the page shows that.
        Ok(Done::Page("/limits".to_owned()))
    }
}
