//! Actions on jobs that are named by their ids.

use async_trait::async_trait;
use diesel_jobs_core::storage::Operated;
use diesel_jobs_core::{JobId, JobState};

use super::{Act, Done, Form, Preview, Report};
use crate::failure::Failure;
use crate::filter::read_id;
use crate::format::counted;
use crate::rights::Action;
use crate::site::Site;

/// What can be done with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Retry,
    Cancel,
}

impl Verb {
    pub(crate) const ALL: [Self; 2] = [Self::Retry, Self::Cancel];

    /// The verb of a form.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }

    /// The name in a form.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
        }
    }

    /// The text on a button.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Retry => "Retry",
            Self::Cancel => "Cancel",
        }
    }

    /// What has happened to a job.
    const fn done(self) -> &'static str {
        match self {
            Self::Retry => "available now",
            Self::Cancel => "cancelled",
        }
    }

    const fn effect(self) -> &'static str {
        match self {
            Self::Retry => "They become available now, with at least one attempt left.",
            Self::Cancel => "Waiting jobs will not run. A running handler is asked to stop, and its result is refused.",
        }
    }

    pub(crate) const fn destroys(self) -> bool {
        matches!(self, Self::Cancel)
    }

    pub(crate) const fn right(self) -> Action {
        match self {
            Self::Retry => Action::Retry,
            Self::Cancel => Action::Cancel,
        }
    }

    /// Whether jobs in this state can be changed so.
    pub(crate) const fn applies_to(self, state: JobState) -> bool {
        match self {
            Self::Retry => {
                matches!(state, JobState::Cancelled | JobState::Discarded | JobState::Scheduled | JobState::Retrying)
            }
            Self::Cancel => !state.is_finished(),
        }
    }
}

/// An action on these jobs.
#[derive(Debug)]
pub(crate) struct OnJobs {
    verb: Verb,
    ids: Vec<JobId>,
}

/// More than a page can select.
const MOST_IDS: usize = 1000;
/// So many jobs are shown before an action.
const SAMPLE: usize = 10;

impl OnJobs {
    pub(super) fn read(verb: Verb, form: &Form) -> Result<Self, Failure> {
        let mut ids = form.all("id").map(read_id).collect::<Result<Vec<_>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Err(Failure::Malformed("No job is selected. Go back and select some.".to_owned()));
        }
        if ids.len() > MOST_IDS {
            return Err(Failure::Malformed(format!("At most {MOST_IDS} jobs can be selected one by one.")));
        }
        Ok(Self { verb, ids })
    }
}

#[async_trait]
impl Act for OnJobs {
    fn right(&self) -> Action {
        self.verb.right()
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let verb = self.verb;
        let jobs: Vec<_> = site.operator().show_many(&self.ids).await?.into_iter().map(|(job, _)| job).collect();
        let fit: Vec<_> = jobs.iter().filter(|job| verb.applies_to(job.state)).collect();
        let mut notes: Vec<_> = jobs
            .iter()
            .filter(|job| !verb.applies_to(job.state))
            .map(|job| format!("Job {} is {} and is left out.", job.id, job.state))
            .collect();
        let missing = self.ids.iter().filter(|id| !jobs.iter().any(|job| job.id == **id));
        notes.extend(missing.map(|id| format!("There is no job {id} any more.")));
        let number = i64::try_from(fit.len()).unwrap_or(i64::MAX);
        let what = counted(number, "job", "jobs");
        let sample = fit.iter().take(SAMPLE).map(|job| {
            (
                site.base.to(&format!("/jobs/{}", job.id)),
                format!("{}", job.id),
                format!("{} in {}, {}", job.kind, job.queue, job.state),
            )
        });
        Ok(Preview {
            question: format!("{} {what}?", verb.label()),
            effect: verb.effect().to_owned(),
            sample: sample.collect(),
            more: fit
                .len()
                .checked_sub(SAMPLE)
                .filter(|more| *more > 0)
                .map(|more| format!("and {more} more"))
                .unwrap_or_default(),
            notes,
            button: if fit.is_empty() { String::new() } else { format!("{} {what}", verb.label()) },
            destroys: verb.destroys(),
            back: match self.ids.as_slice() {
                [id] => site.base.to(&format!("/jobs/{id}")),
                _ => site.base.to("/jobs"),
            },
            ..Preview::default()
        })
    }

    async fn perform(&self, site: &Site, _actor: &str) -> Result<Done, Failure> {
        let verb = self.verb;
        let operated = match verb {
            Verb::Retry => site.operator().retry_many(&self.ids).await?,
            Verb::Cancel => site.operator().cancel_many(&self.ids).await?,
        };
        let (mut done, mut lines) = (0, Vec::new());
        for (id, operated) in self.ids.iter().zip(operated) {
            match operated {
                Operated::Done => done += 1,
                Operated::NotFound => lines.push(format!("Job {id} does not exist any more.")),
                Operated::Refused(state) => {
                    lines.push(format!("Job {id} is {state} meanwhile, and was left as it is."))
                }
                Operated::Newer => lines.push(format!(
                    "Job {id} was enqueued by a later version of the program. Only that version can change it."
                )),
            }
        }
        let links = self.ids.iter().take(SAMPLE).map(|id| (site.base.to(&format!("/jobs/{id}")), format!("job {id}")));
        Ok(Done::Report(Report {
            title: format!("{}: {}", counted(done, "job", "jobs"), verb.done()),
            whole: lines.is_empty(),
            lines,
            links: links.collect(),
        }))
    }
}
