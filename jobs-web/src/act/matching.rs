//! Actions on all jobs that match a filter. They are stored, and workers do them in batches.

use async_trait::async_trait;
use diesel_jobs_core::storage::{Action as Change, Count, JobFilter, OperationId, RequestKey, filter_for, preview};

use super::verb::Verb;
use super::{Act, Done, Form, Preview, Report};
use crate::failure::Failure;
use crate::field::{Field, Mistake};
use crate::rights::Action;
use crate::site::Site;

/// The field for the name that must be typed.
const TYPED: &str = "name_typed";

/// An action on all jobs that match.
#[derive(Debug)]
pub(crate) struct OnMatching {
    verb: Verb,
    change: Change,
    filter: JobFilter,
    typed: String,
    key: Option<RequestKey>,
}

fn malformed(problem: String) -> Failure {
    Failure::Malformed(format!("{problem}."))
}

impl OnMatching {
    pub(super) fn read(verb: Verb, form: &Form, is_asked: bool) -> Result<Self, Failure> {
        let change = verb.change(form, is_asked)?;
        // A form whose conditions have another name must not act on all jobs.
        if form.all("filter").next().is_none() {
            let text = "The form has no filter. Write filter=, with the conditions for the jobs; an empty filter stands for all jobs.";
            return Err(Failure::Malformed(text.to_owned()));
        }
        let filter: JobFilter = form.get("filter").parse().map_err(malformed)?;
        let filter = filter_for(&change, &filter).map_err(malformed)?;
        Ok(Self { verb, change, filter, typed: form.get(TYPED).trim().to_owned(), key: form.request()? })
    }

    /// All waiting jobs of a queue.
    pub(super) fn purge(queue: &str, form: &Form) -> Result<Self, Failure> {
        let mut filter = JobFilter { queues: vec![queue.to_owned()], ..JobFilter::default() };
        filter.states = diesel_jobs_core::JobState::ALL.into_iter().filter(|state| state.is_waiting()).collect();
        let typed = form.get(TYPED).trim().to_owned();
        Ok(Self { verb: Verb::Delete, change: Change::Delete, filter, typed, key: form.request()? })
    }

    /// What must be typed before jobs are deleted: the only queue or kind of the filter, or a word.
    fn name(&self) -> Option<String> {
        if self.verb != Verb::Delete {
            return None;
        }
        Some(match (self.filter.queues.as_slice(), self.filter.kinds.as_slice()) {
            ([queue], _) if !queue.trim().is_empty() => queue.trim().to_owned(),
            (_, [kind]) if !kind.trim().is_empty() => kind.trim().to_owned(),
            _ => "delete".to_owned(),
        })
    }
}

#[async_trait]
impl Act for OnMatching {
    fn right(&self) -> Action {
        self.verb.right()
    }

    /// A form that is sent twice would store two operations.
    fn is_cumulative(&self) -> bool {
        true
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let searched = site.searchable(&self.filter).map_err(Failure::Malformed)?;
        let found = preview(site.operator(), &self.change, &searched).await?;
        let verb = self.verb;
        let Count { jobs, is_exact } = found.count;
        // The search has not come to its end, and has found none yet.
        let is_unknown = jobs == 0 && !is_exact;
        let what = match jobs {
            0 if is_unknown => "all jobs that match".to_owned(),
            1 if is_exact => "1 job".to_owned(),
            _ => format!("{} jobs", found.count),
        };
        let sample: Vec<_> = found
            .sample
            .iter()
            .map(|job| {
                let url = site.base.to(&format!("/jobs/{}", job.id));
                (url, job.id.to_string(), format!("{} in {}, {}", job.kind, job.queue, job.state))
            })
            .collect();
        let filter = searched.to_string();
        let typed = self.name().map(|name| Field::line(TYPED, &format!("Type `{name}` to confirm"), ""));
        let unknown = is_unknown
            .then(|| "None was found in a second of searching, so it is not known how many there are.".to_owned());
        Ok(Preview {
            question: verb.question(&what),
            effect: verb.effect().to_owned(),
            more: if jobs > sample.len() as u64 || !is_exact { "and others".to_owned() } else { String::new() },
            sample,
            notes: [format!("All jobs that match: {filter}")]
                .into_iter()
                .chain(unknown)
                .chain(["Workers do this in batches. Jobs that are enqueued from now on are left alone.".to_owned()])
                .collect(),
            button: if jobs == 0 && is_exact { String::new() } else { format!("{} {what}", verb.label()) },
            destroys: verb.destroys(),
            fields: verb.fields().into_iter().chain(typed).collect(),
            back: site.base.with("/jobs", [("q", filter.as_str())]),
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        if let Some(name) = self.name().filter(|name| *name != self.typed) {
            let text = format!("Nothing was deleted: {:?} was typed, and not {name:?}", self.typed);
            return Err(Mistake::of(TYPED, &text).into());
        }
        let filter = site.searchable(&self.filter).map_err(Failure::Malformed)?;
        let (operator, change) = (site.operator(), &self.change);
        if let Some(key) = &self.key {
            // If it was started before, the page shows it.
            operator.start_operation_once(key, change, &filter, actor).await?;
        } else {
            operator.start_operation(change, &filter, actor).await?;
        }
        Ok(Done::Page("/operations".to_owned()))
    }
}

/// Ends an operation before all its jobs are changed.
#[derive(Debug)]
pub(crate) struct CancelOperation {
    id: OperationId,
}

impl CancelOperation {
    pub(super) fn read(form: &Form) -> Result<Self, Failure> {
        let name = form.name("operation")?;
        let id = name.parse().map_err(|_| Failure::Malformed(format!("{name:?} is not the id of an operation.")))?;
        Ok(Self { id: OperationId(id) })
    }
}

#[async_trait]
impl Act for CancelOperation {
    fn right(&self) -> Action {
        Action::Operations
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let Some(operation) = site.operator().operation(self.id).await? else {
            return Err(Failure::NotFound(format!("There is no operation {}.", self.id)));
        };
        Ok(Preview {
            question: format!("Cancel operation {}?", self.id),
            effect: "Jobs that it has changed stay changed. The others are left as they are.".to_owned(),
            notes: vec![format!(
                "It is to {} {}, and has changed {} jobs so far.",
                operation.action, operation.filter, operation.changed
            )],
            button: if operation.finished_at.is_none() { "Cancel the operation".to_owned() } else { String::new() },
            destroys: true,
            back: site.base.to("/operations"),
            ..Preview::default()
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        if site.operator().cancel_operation(self.id, actor).await? {
            return Ok(Done::Page("/operations".to_owned()));
        }
        Ok(Done::Report(Report {
            title: "Nothing was changed".to_owned(),
            lines: vec![format!("Operation {} has ended already.", self.id)],
            links: vec![(site.base.to("/operations"), "all operations".to_owned())],
            ..Report::default()
        }))
    }
}
