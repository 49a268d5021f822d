//! Actions that take the permit or the unique key away from a job.

use async_trait::async_trait;
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{PermitOfJob, keyed};

use super::{Act, Done, Form, Preview, Report};
use crate::failure::Failure;
use crate::filter::read_id;
use crate::rights::Action;
use crate::site::Site;

/// What is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Permit,
    Key,
}

impl Verb {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "release-permit" => Some(Self::Permit),
            "release-key" => Some(Self::Key),
            _ => None,
        }
    }
}

/// Takes it away from this job.
#[derive(Debug)]
pub(crate) struct Release {
    verb: Verb,
    job: JobId,
}

impl Release {
    pub(super) fn read(verb: Verb, form: &Form) -> Result<Self, Failure> {
        match form.get("id") {
            "" => Err(Failure::Malformed("The form names no job. Choose one on a page of this dashboard.".to_owned())),
            id => Ok(Self { verb, job: read_id(id)? }),
        }
    }

    fn page(&self) -> String {
        format!("/jobs/{}", self.job)
    }
}

#[async_trait]
impl Act for Release {
    fn right(&self) -> Action {
        Action::Limits
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let (job, back) = (self.job, site.base.to(&self.page()));
        let preview = Preview { destroys: true, back, ..Preview::default() };
        Ok(match self.verb {
            Verb::Permit => match site.operator().permit(job).await? {
                PermitOfJob::Left { limits } => Preview {
                    question: format!("Release the permits of job {job}?"),
                    effect: format!(
                        "The job does not need its permits: {}. The next jobs of these keys start. If a dead worker still has the job, the \
                         job runs again alongside it.",
                        limits
                            .iter()
                            .map(|permit| format!("{}, {}", permit.name, keyed(&permit.key)))
                            .collect::<Vec<_>>()
                            .join("; ")
                    ),
                    button: "Release".to_owned(),
                    ..preview
                },
                other => Preview {
                    question: format!("Release the permits of job {job}?"),
                    effect: "Only a permit that its job does not need is released.".to_owned(),
                    notes: vec![format!("Now {}.", other.text(job))],
                    ..preview
                },
            },
            Verb::Key => {
                let key = site.operator().unique_key(job).await?;
                Preview {
                    question: format!("Take the unique key away from job {job}?"),
                    effect: "The job continues. The next enqueue with the same key inserts a job.".to_owned(),
                    notes: key.iter().map(|key| format!("The key is {} of {}.", key.key, key.name)).collect(),
                    button: if key.is_some() { "Release the key".to_owned() } else { String::new() },
                    ..preview
                }
            }
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        let job = self.job;
        let problem = match self.verb {
            Verb::Permit => match site.operator().release_permit(job, actor).await? {
                PermitOfJob::Left { .. } => None,
                other => Some(format!("Now {}.", other.text(job))),
            },
            Verb::Key => match site.operator().release_key(job, actor).await? {
                Some(_) => None,
                None => Some(format!("Job {job} has no unique key.")),
            },
        };
        let links = vec![(site.base.to(&self.page()), format!("job {job}"))];
        Ok(Done::Report(match problem {
            None => Report {
                title: match self.verb {
                    Verb::Permit => format!("The permits of job {job} are free"),
                    Verb::Key => format!("Job {job} no longer has its unique key"),
                },
                whole: true,
                links,
                ..Report::default()
            },
            Some(line) => {
                Report { title: "Nothing was changed".to_owned(), lines: vec![line], links, ..Report::default() }
            }
        }))
    }
}
