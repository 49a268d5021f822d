//! One job: its timeline, arguments, output, progress and failures.

use askama::Template;
use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{KeyOfJob, LimitSetting, PermitOfJob, keyed};
use diesel_jobs_core::{
    AttemptError, FailureKind, JobRecord, JobRule, JobState, Output, Progress, Reason, Rule, Why, WorkerId,
    WorkerRecord, flags, indented_json, period_text,
};

use super::{Visit, failures, render};
use crate::act::Verb;
use crate::failure::{Failure, Page};
use crate::figure::Figure;
use crate::filter::read_id;
use crate::format::{self, sentence, span};
use crate::link::Base;
use crate::reason::{Told, told};
use crate::redact::Part;
use crate::rights::Action;
use crate::sentence::{Named, Sentence};
use crate::shell::{Place, Shell};
use crate::site::Site;

/// An entry of the timeline.
struct Event {
    at: DateTime<Utc>,
    class: &'static str,
    title: String,
    detail: Sentence,
    text: Option<String>,
    backtrace: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Shell,
    job: JobRecord,
    args: String,
    /// A note about them, such as that values are hidden.
    args_note: Option<&'static str>,
    output: Option<String>,
    output_note: Option<String>,
    progress: Option<Progress>,
    events: Vec<Event>,
    /// How many other jobs have failed like this one.
    others: Option<Figure>,
    verbs: Vec<Verb>,
    why: Vec<Told>,
    /// Whether the job halts its sequence.
    halts: bool,
    flow: Flow,
    /// The worker that has the newest lease, or had it.
    worker: Option<Sentence>,
}

/// The limits, the sequence and the unique key of a job.
#[derive(Default)]
struct Flow {
    /// The rules: the name of each on the page, and what is known of it.
    rules: Vec<(&'static str, String)>,
    /// The unique key, and what an enqueue with it does.
    key: Option<String>,
    /// Whether its permit can be released.
    has_idle_permit: bool,
}

impl Flow {
    /// Jobs without a limit and a key cost no statement.
    async fn of(site: &Site, job: &JobRecord) -> Result<Self, Failure> {
        let mut flow = Self::default();
        if !job.rules.is_empty() {
            let settings = site.operator().limit_settings().await?;
            flow.rules = job.rules.iter().map(|rule| shown(rule, &settings)).collect();
            flow.has_idle_permit = matches!(site.operator().permit(job.id).await?, PermitOfJob::Left { .. });
        }
        if job.flags & flags::UNIQUE != 0 {
            let rule = site.redactor.options(&job.kind).and_then(|options| options.unique);
            flow.key = site.operator().unique_key(job.id).await?.map(|key: KeyOfJob| key.text(rule));
        }
        Ok(flow)
    }
}

/// The name of a rule on the page, and what is known of it.
fn shown(JobRule { name, key, rule, tenant, .. }: &JobRule, settings: &[LimitSetting]) -> (&'static str, String) {
    let (on_full, keyed) = (rule.on_full().shown(), keyed(key));
    match *rule {
        Rule::Concurrency { most, .. } => {
            // What an operator has set applies, and what the code says is a note.
            let set = settings.iter().find(|set| set.name == *name);
            let now = set.map_or(most, |set| set.most);
            let (code, set) = match set {
                Some(set) => (format!(" ({most} in the code)"), format!("; {set}")),
                None => (String::new(), String::new()),
            };
            let tenant = tenant.as_ref().map(|tenant| format!(", tenant {tenant}")).unwrap_or_default();
            ("Limit", format!("{now} at once of {name}{code}, {keyed}{tenant}{on_full}{set}"))
        }
        Rule::Rate { limit, per, burst, .. } => {
            ("Rate", format!("{limit} in {} of {name}, {burst} at once, {keyed}{on_full}", period_text(per)))
        }
        _ => ("Sequence", format!("{name}, {keyed}")),
    }
}

pub(crate) async fn job(visit: Visit) -> Page {
    let id = read_id(visit.param("id"))?;
    let site = &visit.site;
    let mut shell = visit.shell(Place::Jobs, &format!("Job {id}")).await?.live(&format!("/jobs/{id}"), &visit.query);
    let Some((job, errors)) = site.operator().show(id).await? else {
        let why = site.operator().why(id).await?;
        // A deleted job may still halt its sequence.
        let reasons = why.reasons.iter().map(|reason| sentence(&reason.text).replace('`', ""));
        return Err(Failure::NotFound(reasons.collect::<Vec<_>>().join(" ")));
    };
    let output = match job.state {
        JobState::Completed => site.operator().end(id).await?.and_then(|end| end.output),
        _ => None,
    };
    let mut progress = site.operator().progress(id).await?;
    if let Some(progress) = &mut progress {
        progress.message = site.shown(&job, Part::Progress, &progress.message);
    }
    let args = indented_json(&site.shown(&job, Part::Arguments, &job.args));
    let output_note = output.as_ref().and_then(Output::note).map(str::to_owned);
    let output =
        output.as_ref().and_then(Output::json).map(|json| indented_json(&site.shown(&job, Part::Output, json)));
    let workers = Workers::of(site, &shell, &job, &errors).await?;
    let events = timeline(&job, &errors, &workers, |text| site.shown(&job, Part::Failure, text));
    let worker = job.worker.map(|worker| workers.sentence(&workers.name(worker)));
    let verbs = Verb::ALL.into_iter().filter(|verb| verb.applies_to(job.state) && shell.may(verb.right())).collect();
    let why = why(site, &job).await?;
    let reasons = || why.iter().flat_map(|why| &why.reasons);
    let halts = reasons().any(|explained| matches!(explained.reason, Reason::Halts(_)));
    let why = why.as_ref().map(|why| told(&shell, why)).unwrap_or_default();
    job.state.as_str().clone_into(&mut shell.alert);
    let args_note = site.redactor.note(&job.kind);
    let flow = Flow::of(site, &job).await?;
    // The page is worth more than this number.
    let others = failures::others_like(site, &shell, &job, &errors).await.unwrap_or_default();
    render(&JobPage {
        shell,
        args,
        args_note,
        output,
        output_note,
        progress,
        events,
        others,
        verbs,
        why,
        halts,
        flow,
        worker,
        job,
    })
}

/// Why the job does not run. Of an ended job: which sequence it halts.
async fn why(site: &Site, job: &JobRecord) -> Result<Option<Why>, Failure> {
    let may_halt = job.state == JobState::Discarded && job.rules.iter().any(|rule| rule.rule.on_discard().is_some());
    if job.state.is_finished() && !may_halt {
        return Ok(None);
    }
    let shown = |part| move |text: &str| site.shown(job, part, text);
    let mut why = site.operator().why(job.id).await?.redacted(shown(Part::Failure), shown(Part::Progress));
    // How it has ended is in the timeline.
    why.reasons.retain(|explained| !matches!(explained.reason, Reason::Ended { .. }));
    Ok(Some(why))
}

/// The workers that the page of a job names.
struct Workers {
    known: Vec<WorkerRecord>,
    named: Vec<Named>,
    base: Base,
}

impl Workers {
    /// A job without a worker costs no statement.
    async fn of(site: &Site, shell: &Shell, job: &JobRecord, errors: &[AttemptError]) -> Result<Self, Failure> {
        let ids: Vec<WorkerId> = errors.iter().filter_map(|error| error.worker).chain(job.worker).collect();
        let mut known = if ids.is_empty() { Vec::new() } else { site.operator().workers().await? };
        known.retain(|worker| ids.contains(&worker.id));
        let named = known.iter().map(|worker| Named::Worker(worker.process())).collect();
        Ok(Self { known, named, base: shell.base.clone() })
    }

    /// Its process and machine while it is registered, or its id.
    fn name(&self, id: WorkerId) -> String {
        let known = self.known.iter().find(|worker| worker.id == id);
        known.map_or_else(|| format!("worker {id}"), WorkerRecord::process)
    }

    /// A text with links to the workers.
    fn sentence(&self, text: &str) -> Sentence {
        Sentence::new(text, &self.named, &self.base)
    }
}

/// What happened to the job, newest first.
fn timeline(job: &JobRecord, errors: &[AttemptError], workers: &Workers, shown: impl Fn(&str) -> String) -> Vec<Event> {
    let event = |at, class, title: &str| Event {
        at,
        class,
        title: title.to_owned(),
        detail: Sentence::default(),
        text: None,
        backtrace: None,
    };
    let mut events = vec![event(job.enqueued_at, "plain", "Enqueued")];
    for error in errors {
        let took = error.started_at.map(|start| format!("after {}", span(error.at - start)));
        let worker = error.worker.map(|worker| workers.name(worker));
        let place = error.place.as_ref().map(|place| format!("at {place}"));
        let actor = error.actor.as_ref().map(|actor| format!("by {actor}"));
        events.push(Event {
            at: error.at,
            class: if error.kind == FailureKind::Killed { "available" } else { "discarded" },
            title: match error.attempt {
                0 => format!("Ended before the first attempt ({})", error.kind),
                attempt if error.kind == FailureKind::Killed => {
                    format!("Attempt {attempt} was released ({})", error.kind)
                }
                attempt => format!("Attempt {attempt} failed ({})", error.kind),
            },
            detail: workers
                .sentence(&took.into_iter().chain(place).chain(actor).chain(worker).collect::<Vec<_>>().join(", ")),
            text: Some(shown(&error.message)),
            backtrace: error.backtrace.as_deref().map(&shown),
        });
    }
    if let (JobState::Running, Some(at)) = (job.state, job.claimed_at) {
        let worker = job.worker.map(|worker| workers.name(worker)).unwrap_or_default();
        let title = format!("Attempt {} of {} runs", job.attempt, job.max_attempts);
        events.push(Event { detail: workers.sentence(&worker), ..event(at, "running", &title) });
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
        events.push(Event { detail: workers.sentence(&took), ..event(at, job.state.as_str(), title) });
    }
    if job.state.is_waiting() {
        let (class, title) = match job.state {
            JobState::Available => ("available", "Due"),
            JobState::Retrying => ("retrying", "Next attempt"),
            JobState::Held => ("held", "Due, and held by its limit"),
            _ => ("scheduled", "Scheduled for"),
        };
        // A job of SQL may be due a moment before its enqueue.
        events.push(event(job.run_at.max(job.enqueued_at), class, title));
    }
    // Of what happened at one time, the later one stands first, too.
    events.reverse();
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    events
}
