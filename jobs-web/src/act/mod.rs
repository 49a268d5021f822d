//! What can be done: read from a form, previewed on a page, and done.

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

pub(crate) use self::verb::Verb;
use crate::failure::Failure;
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
    /// What must be known before: jobs that are left out, and why.
    pub(crate) notes: Vec<String>,
    /// The text on the button. Empty: there is nothing to do.
    pub(crate) button: String,
    /// Whether the action destroys.
    pub(crate) destroys: bool,
    /// The name that must be typed.
    pub(crate) name: Option<String>,
    /// What can be said in addition.
    pub(crate) fields: Vec<Field>,
    /// Where `Back` leads.
    pub(crate) back: String,
}

/// A field of the page that asks for confirmation.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) value: String,
    pub(crate) required: bool,
    pub(crate) hint: &'static str,
    pub(crate) input: Input,
}

/// How a field is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// One line.
    Line,
    /// Several lines.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Field {
    /// Why it is done, in one line.
    pub(crate) fn reason() -> Self {
        Self {
            name: "reason",
            label: "Reason",
            value: String::new(),
            required: false,
            hint: "Pages and commands show it with your name.",
            input: Input::Line,
        }
    }
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) title: String,
    /// Whether all was done that was asked for.
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

    /// Looks at what would be changed. Changes nothing.
    async fn preview(&self, site: &Site) -> Result<Preview, Failure>;

    /// Does it.
    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure>;
}

/// The values of a form.
pub(crate) struct Form(pub(crate) Vec<(String, String)>);

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

    /// The name of what is acted on. It must not be empty.
    pub(crate) fn name(&self, of: &str) -> Result<String, Failure> {
        match self.get("name") {
            "" => Err(Failure::Malformed(format!("The form names no {of}. Choose one on a page of this dashboard."))),
            name => Ok(name.to_owned()),
        }
    }
}

/// Reads which action a form asks for. `is_asked`: the page that asks for confirmation is shown, and its fields are not filled in yet.
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
        return Ok(Box::new(queue::OnQueue::read(verb, form)?));
    }
    if let Some(verb) = kind::Verb::named(action) {
        return Ok(Box::new(kind::OnKind::read(verb, form)?));
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
        return Ok(Box::new(schedule_edit::OnSchedule::read(verb, form, is_asked)?));
    }
    if let Some(verb) = schedule::Verb::named(action) {
        return Ok(Box::new(schedule::OnSchedule::read(verb, form)?));
    }
    Err(Failure::Malformed(format!("There is no action {action:?}. Choose one on a page of this dashboard.")))
}
