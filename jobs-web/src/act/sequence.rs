//! The action on a halted sequence: it continues without its discarded job.

use async_trait::async_trait;
use diesel_jobs_core::storage::keyed;

use super::{Act, Done, Form, Preview, Report};
use crate::failure::Failure;
use crate::rights::Action;
use crate::site::Site;

/// How many halted sequences are read to find the one of the form.
const EXAMINED: usize = 1000;

/// Skips the discarded job of this sequence.
#[derive(Debug)]
pub(crate) struct SkipSequence {
    name: String,
    key: String,
}

impl SkipSequence {
    pub(super) fn read(form: &Form) -> Result<Self, Failure> {
        Ok(Self { name: form.name("sequence")?, key: form.get("key").to_owned() })
    }
}

#[async_trait]
impl Act for SkipSequence {
    fn right(&self) -> Action {
        Action::Limits
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let Self { name, key } = self;
        let halted = site.operator().halted_sequences(EXAMINED).await?;
        let halted = halted.into_iter().find(|halted| halted.name == *name && halted.key == *key);
        let sample = halted.iter().map(|halted| {
            let link = site.base.to(&format!("/jobs/{}", halted.job));
            (link, format!("job {}", halted.job), "was discarded, which halts the sequence".to_owned())
        });
        Ok(Preview {
            question: format!("Continue the sequence {name}, {}, without its discarded job?", keyed(key)),
            effect: "The next job of this key starts. The discarded job does not run again.".to_owned(),
            sample: sample.collect(),
            button: if halted.is_some() { "Skip".to_owned() } else { String::new() },
            destroys: true,
            back: site.base.to("/limits"),
            ..Preview::default()
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        let Self { name, key } = self;
        if site.operator().skip_sequence(name, key, actor).await? {
            return Ok(Done::Page("/limits".to_owned()));
        }
        Ok(Done::Report(Report {
            title: "Nothing was changed".to_owned(),
            lines: vec![format!("The sequence {name} is not halted for {}.", keyed(key))],
            links: vec![(site.base.to("/limits"), "Limits".to_owned())],
            ..Report::default()
        }))
    }
}
