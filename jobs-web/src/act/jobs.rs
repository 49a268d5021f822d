//! Actions on jobs that are named by their ids.

use async_trait::async_trait;
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{Action as Change, AuditRecord, Once, Operated, RequestKey};

use super::verb::Verb;
use super::{Act, Done, Form, Preview, Report, done_before};
use crate::failure::Failure;
use crate::filter::read_id;
use crate::format::counted;
use crate::rights::Action;
use crate::site::Site;

/// An action on these jobs.
#[derive(Debug)]
pub(crate) struct OnJobs {
    verb: Verb,
    change: Change,
    ids: Vec<JobId>,
    key: Option<RequestKey>,
}

/// More than a page can select.
const MOST_IDS: usize = 1000;
/// How many jobs are shown before an action.
const SAMPLE: usize = 10;

impl OnJobs {
    pub(super) fn read(verb: Verb, form: &Form, is_asked: bool) -> Result<Self, Failure> {
        let mut ids = form.all("id").map(read_id).collect::<Result<Vec<_>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Err(Failure::Malformed("No job is selected. Go back and select some.".to_owned()));
        }
        if ids.len() > MOST_IDS {
            return Err(Failure::Malformed(format!("At most {MOST_IDS} jobs can be selected one by one.")));
        }
        Ok(Self { verb, change: verb.change(form, is_asked)?, ids, key: form.request()? })
    }

    fn link(site: &Site, id: JobId) -> String {
        site.base.to(&format!("/jobs/{id}"))
    }

    /// Links to the jobs that were enqueued again, as the audit has them.
    fn links(site: &Site, entry: &AuditRecord) -> Vec<(String, String)> {
        let ids = entry.detail.as_ref().and_then(|detail| detail.get("enqueued")).and_then(|ids| ids.as_array());
        let ids = ids.into_iter().flatten().filter_map(|id| id.as_i64()).take(SAMPLE);
        let links = ids.map(|id| (Self::link(site, JobId(id)), format!("job {id}")));
        links.chain([(site.base.to("/jobs"), "all jobs".to_owned())]).collect()
    }
}

#[async_trait]
impl Act for OnJobs {
    fn right(&self) -> Action {
        self.verb.right()
    }

    fn is_cumulative(&self) -> bool {
        self.verb.is_cumulative()
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
        notes.extend(missing.map(|id| format!("Job {id} no longer exists.")));
        let number = i64::try_from(fit.len()).unwrap_or(i64::MAX);
        let what = counted(number, "job", "jobs");
        let sample = fit.iter().take(SAMPLE).map(|job| {
            (Self::link(site, job.id), job.id.to_string(), format!("{} in {}, {}", job.kind, job.queue, job.state))
        });
        Ok(Preview {
            question: verb.question(&what),
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
            fields: verb.fields(),
            back: match self.ids.as_slice() {
                [id] => Self::link(site, *id),
                _ => site.base.to("/jobs"),
            },
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        let operator = site.operator();
        let operated = match &self.key {
            Some(key) if self.is_cumulative() => match operator.act_once(key, &self.change, &self.ids, actor).await? {
                Once::Now(operated) => operated,
                Once::Before(entry) => return Ok(done_before(&entry, Self::links(site, &entry))),
            },
            _ => operator.act(&self.change, &self.ids, actor).await?,
        };
        let (mut done, mut lines, mut links) = (0_usize, Vec::new(), Vec::new());
        for (id, operated) in self.ids.iter().zip(operated) {
            let mut shown = *id;
            match operated {
                Operated::Done => done += 1,
                Operated::Enqueued(new) => {
                    done += 1;
                    shown = new;
                }
                Operated::NotFound => lines.push(format!("Job {id} no longer exists.")),
                Operated::Refused(state) => lines.push(format!("Job {id} is now {state}, and was left as it is.")),
                Operated::Newer => lines.push(format!(
                    "Job {id} was enqueued by a later version of the program. Only that version can change it."
                )),
                unknown => {
                    lines.push(format!("Job {id}: the database's answer is {unknown:?}. Look at the job's page."))
                }
            }
            if links.len() < SAMPLE && self.verb != Verb::Delete {
                links.push((Self::link(site, shown), format!("job {shown}")));
            }
        }
        links.push((site.base.to("/jobs"), "all jobs".to_owned()));
        Ok(Done::Report(Report {
            title: format!("{}: {}", counted(done, "job", "jobs"), self.verb.done()),
            whole: lines.is_empty(),
            lines,
            links,
        }))
    }
}
