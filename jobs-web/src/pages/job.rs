//! One job: its timeline, arguments, output, progress and failures.

use askama::Template;
use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{KeyOfJob, LimitSetting, SlotOfJob};
use diesel_jobs_core::{AttemptError, Explained, JobRecord, JobState, Output, Progress, flags};

use super::{Visit, render};
use crate::act::Verb;
use crate::failure::{Failure, Page};
use crate::filter::read_id;
use crate::format::{self, pretty, span};
use crate::redact::Part;
use crate::rights::Action;
use crate::shell::{Place, Shell};
use crate::site::Site;

/// An entry of the timeline.
struct Event {
    at: DateTime<Utc>,
    class: &'static str,
    title: String,
    detail: String,
    text: Option<String>,
    backtrace: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Shell,
    job: JobRecord,
    known: bool,
    args: String,
    output: Option<String>,
    output_note: Option<String>,
    progress: Option<Progress>,
    events: Vec<Event>,
    verbs: Vec<Verb>,
    why: Vec<Explained>,
    flow: Flow,
}

/// What a job has of a limit, a sequence and a unique key.
#[derive(Default)]
struct Flow {
    /// The limit or the sequence: its name on the page, and what is known of it.
    limit: Option<(&'static str, String)>,
    /// The unique key, and what an enqueue with it does.
    key: Option<String>,
    /// Whether its slot can be released.
    has_idle_slot: bool,
}

impl Flow {
    /// Jobs without a limit and a key cost no statement.
    async fn of(site: &Site, job: &JobRecord) -> Result<Self, Failure> {
        let mut flow = Self::default();
        if let Some(limit) = &job.limit {
            let set = match limit.sequence {
                None => site.operator().limit_settings().await?.into_iter().find(|set| set.name == limit.name),
                Some(_) => None,
            };
            let set = set.as_ref().map(|set: &LimitSetting| format!("; {set}")).unwrap_or_default();
            flow.limit = Some(match limit.sequence {
                Some(_) => ("Sequence", format!("{}, key {}", limit.name, limit.key)),
                None => ("Limit", format!("{} at once of {}, key {}{set}", limit.most, limit.name, limit.key)),
            });
            flow.has_idle_slot = matches!(site.operator().slot(job.id).await?, SlotOfJob::Left { .. });
        }
        if job.flags & flags::UNIQUE != 0 {
            let rule = site.redactor.options(&job.kind).and_then(|options| options.unique);
            flow.key = site.operator().unique_key(job.id).await?.map(|key: KeyOfJob| key.text(rule));
        }
        Ok(flow)
    }
}

pub(crate) async fn job(visit: Visit) -> Page {
    let id = read_id(visit.param("id"))?;
    let site = &visit.site;
    let shell = visit.shell(Place::Jobs, &format!("Job {id}")).await?.live(&format!("/jobs/{id}"), &visit.query);
    let Some((job, errors)) = site.operator().show(id).await? else {
        let why = site.operator().why(id).await?;
        let text = why.reasons.first().map_or_else(|| format!("there is no job {id}"), |reason| reason.text.clone());
        return Err(Failure::NotFound(sentence(&text)));
    };
    let output = match job.state {
        JobState::Completed => site.operator().end(id).await?.and_then(|end| end.output),
        _ => None,
    };
    let mut progress = site.operator().progress(id).await?;
    if let Some(progress) = &mut progress {
        progress.message = site.shown(&job, Part::Progress, &progress.message);
    }
    let args = pretty(&site.shown(&job, Part::Arguments, &job.args));
    let output_note = output.as_ref().and_then(Output::note).map(str::to_owned);
    let output = output.as_ref().and_then(Output::json).map(|json| pretty(&site.shown(&job, Part::Output, json)));
    let events = timeline(&job, &errors, |text| site.shown(&job, Part::Failure, text));
    let verbs = Verb::ALL.into_iter().filter(|verb| verb.applies_to(job.state) && shell.may(verb.right())).collect();
    let why = if job.state.is_finished() {
        Vec::new()
    } else {
        let shown = |part| {
            let job = &job;
            move |text: &str| site.shown(job, part, text)
        };
        site.operator().why(id).await?.redacted(shown(Part::Failure), shown(Part::Progress)).reasons
    };
    let known = site.redactor.knows(&job.kind);
    let flow = Flow::of(site, &job).await?;
    render(&JobPage { shell, known, args, output, output_note, progress, events, verbs, why, flow, job })
}

/// The text as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(|letter| letter.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}{}", letters.as_str(), if text.ends_with('.') { "" } else { "." })
}

/// What happened to the job, newest first.
fn timeline(job: &JobRecord, errors: &[AttemptError], shown: impl Fn(&str) -> String) -> Vec<Event> {
    let event = |at, class, title: &str| Event {
        at,
        class,
        title: title.to_owned(),
        detail: String::new(),
        text: None,
        backtrace: None,
    };
    let mut events = vec![event(job.enqueued_at, "plain", "Enqueued")];
    for error in errors {
        let took = error.started_at.map(|start| format!("after {}", span(error.at - start)));
        let worker = error.worker.map(|worker| format!("worker {worker}"));
        let place = error.place.as_ref().map(|place| format!("at {place}"));
        let actor = error.actor.as_ref().map(|actor| format!("by {actor}"));
        events.push(Event {
            at: error.at,
            class: "discarded",
            title: format!("Attempt {} failed ({})", error.attempt, error.kind),
            detail: took.into_iter().chain(place).chain(actor).chain(worker).collect::<Vec<_>>().join(", "),
            text: Some(shown(&error.message)),
            backtrace: error.backtrace.as_deref().map(&shown),
        });
    }
    if let (JobState::Running, Some(at)) = (job.state, job.claimed_at) {
        let worker = job.worker.map(|worker| format!("worker {worker}")).unwrap_or_default();
        let title = format!("Attempt {} of {} runs", job.attempt, job.max_attempts);
        events.push(Event { detail: worker, ..event(at, "running", &title) });
    }
    if let Some(at) = job.finished_at {
        let took = match (job.state, job.claimed_at) {
            (JobState::Completed, Some(start)) => format!("attempt {}, after {}", job.attempt, span(at - start)),
            _ => String::new(),
        };
        let title = match job.state {
            JobState::Completed => "Completed",
            JobState::Cancelled => "Cancelled",
            _ => "Discarded",
        };
        events.push(Event { detail: took, ..event(at, job.state.as_str(), title) });
    }
    if job.state.is_waiting() {
        let (class, title) = match job.state {
            JobState::Available => ("available", "Due"),
            JobState::Retrying => ("retrying", "Next attempt"),
            JobState::Held => ("held", "Due, and held by its limit"),
            _ => ("scheduled", "Scheduled for"),
        };
        events.push(event(job.run_at, class, title));
    }
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    events
}
