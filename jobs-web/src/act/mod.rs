//! The actions. Each is read from a form, previewed on a page, and performed.

mod jobs;
mod kind;
mod limit;
mod matching;
mod queue;
mod release;
mod schedule;
mod schedule_edit;
mod sequence;
mod verb;
mod worker;

use async_trait::async_trait;
use diesel_jobs_core::installation::check_words;
use diesel_jobs_core::storage::{AuditRecord, RequestKey};

pub(crate) use self::verb::Verb;
use crate::failure::Failure;
use crate::field::{Field, Mistake};
use crate::rights::Action;
use crate::site::Site;

/// What would be changed, for the page that asks for confirmation.
#[derive(Debug, Default)]
pub(crate) struct Preview {
    /// The question: `Cancel 3 jobs?`
    pub(crate) question: String,
    /// What the action does, in a sentence.
    pub(crate) effect: String,
    /// Some of what would be changed: address, name and a description.
    pub(crate) sample: Vec<(String, String, String)>,
    /// How many more there are.
    pub(crate) more: String,
    /// Notes for the operator: jobs that are left out, and why.
    pub(crate) notes: Vec<String>,
    /// The text on the button. Empty: there is nothing to do.
    pub(crate) button: String,
    /// Whether the action destroys.
    pub(crate) destroys: bool,
    /// The fields of the form, such as the reason. Some are required.
    pub(crate) fields: Vec<Field>,
    /// Where `Back` leads.
    pub(crate) back: String,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) title: String,
    /// Whether everything was done.
    pub(crate) whole: bool,
    pub(crate) lines: Vec<String>,
    /// Links to what was changed: address and name.
    pub(crate) links: Vec<(String, String)>,
}

/// What is shown after an action.
#[derive(Debug)]
pub(crate) enum Done {
    /// What was done.
    Report(Report),
    /// The page at this path, which shows it.
    Page(String),
}

/// An action on something, as a form asks for it.
#[async_trait]
pub(crate) trait Act: Send + Sync {
    /// The right that it needs.
    fn right(&self) -> Action;

    /// Whether a form that is sent twice would change more than a form that is sent once. Then the form has a key, so
    /// that the action is performed once.
    fn is_cumulative(&self) -> bool {
        false
    }

    /// Reads what would be changed. Changes nothing.
    async fn preview(&self, site: &Site) -> Result<Preview, Failure>;

    /// Performs the action.
    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure>;
}

/// The values of a form.
pub(crate) struct Form(pub(crate) Vec<(String, String)>);

/// The field with the key of a form.
pub(crate) const REQUEST: &str = "request";

impl Form {
    /// The first value of this name. Empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.as_str())
    }

    /// The first value of this name, without white space around it. `None` if it is empty.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        let value = self.get(name).trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// All values of this name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The reason for the action. `None` while the form is shown first (`is_asked`), because its fields are not filled
    /// in yet.
    fn reason(&self, is_asked: bool) -> Result<Option<String>, Failure> {
        let reason = self.given("reason").filter(|_| !is_asked);
        if let Some(reason) = &reason {
            check_words("the reason", reason).map_err(|problem| Mistake::of("reason", &problem))?;
        }
        Ok(reason)
    }

    /// The key of the form. A request without a key is performed each time.
    fn request(&self) -> Result<Option<RequestKey>, Failure> {
        let key = self.given(REQUEST).map(|key| key.parse::<RequestKey>()).transpose();
        key.map_err(|problem| Failure::Malformed(format!("{problem}. Open the page of the action again.")))
    }

    /// The name of what is acted on. It must not be empty.
    pub(crate) fn name(&self, of: &str) -> Result<String, Failure> {
        match self.get("name") {
            "" => Err(Failure::Malformed(format!("The form names no {of}. Choose one on a page of this dashboard."))),
            name => Ok(name.to_owned()),
        }
    }
}

/// The answer to a form that was sent before with the same key.
fn done_before(entry: &AuditRecord, links: Vec<(String, String)>) -> Done {
    let AuditRecord { at, actor, action, target, .. } = entry;
    Done::Report(Report {
        title: "This was done already".to_owned(),
        whole: true,
        lines: vec![format!(
            "The form was sent twice. {actor} did it at {}: {action} {target}. It was not done again.",
            at.format("%Y-%m-%d %H:%M:%S UTC")
        )],
        links,
    })
}

/// Reads which action a form asks for. `is_asked`: the page that asks for confirmation is shown. Its fields are not
/// filled in yet, or have a mistake.
pub(crate) fn read(form: &Form, is_asked: bool) -> Result<Box<dyn Act>, Failure> {
    let action = form.get("action");
    if let Some(verb) = Verb::named(action) {
        return Ok(match form.get("all") {
            "" => Box::new(jobs::OnJobs::read(verb, form, is_asked)?),
            _ => Box::new(matching::OnMatching::read(verb, form, is_asked)?),
        });
    }
    if action == "queue-purge" {
        return Ok(Box::new(matching::OnMatching::purge(&form.name("queue")?, form)?));
    }
    if action == "operation-cancel" {
        return Ok(Box::new(matching::CancelOperation::read(form)?));
    }
    if let Some(verb) = queue::Verb::named(action) {
        return Ok(Box::new(queue::OnQueue::read(verb, form, is_asked)?));
    }
    if let Some(verb) = kind::Verb::named(action) {
        return Ok(Box::new(kind::OnKind::read(verb, form, is_asked)?));
    }
    if let Some(verb) = limit::Verb::named(action) {
        return Ok(Box::new(limit::OnLimit::read(verb, form, is_asked)?));
    }
    if action == "sequence-skip" {
        return Ok(Box::new(sequence::SkipSequence::read(form)?));
    }
    if let Some(verb) = release::Verb::named(action) {
        return Ok(Box::new(release::Release::read(verb, form)?));
    }
    if let Some(verb) = worker::Verb::named(action) {
        return Ok(Box::new(worker::OnWorker::read(verb, form)?));
    }
    if let Some(verb) = schedule_edit::Verb::named(action) {
        return Ok(Box::new(schedule_edit::OnSchedule::read(verb, form)?));
    }
    if let Some(verb) = schedule::Verb::named(action) {
        return Ok(Box::new(schedule::OnSchedule::read(verb, form, is_asked)?));
    }
    Err(Failure::Malformed(format!("There is no action {action:?}. Choose one on a page of this dashboard.")))
}
