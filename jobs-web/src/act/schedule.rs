//! Actions on a schedule.

use async_trait::async_trait;
use chrono::{DateTime, NaiveDateTime, Utc};
use diesel_jobs_core::storage::{Once, RequestKey, ScheduleRecord, Scheduled};
use diesel_jobs_core::{NewJob, RunAt, Schedule};

use super::{Act, Done, Form, Preview, Report, done_before};
use crate::failure::Failure;
use crate::field::{Field, Mistake};
use crate::format::counted;
use crate::rights::Action;
use crate::site::Site;

/// What can be done with a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Trigger,
    Pause,
    Resume,
    Backfill,
}

impl Verb {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "schedule-trigger" => Some(Self::Trigger),
            "schedule-pause" => Some(Self::Pause),
            "schedule-resume" => Some(Self::Resume),
            "schedule-backfill" => Some(Self::Backfill),
            _ => None,
        }
    }
}

/// The most jobs of one backfill.
const MOST_TICKS: usize = 1000;

/// An action on this schedule.
#[derive(Debug)]
pub(crate) struct OnSchedule {
    verb: Verb,
    name: String,
    reason: Option<String>,
    from: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    key: Option<RequestKey>,
}

/// A time as the form has it: `2026-01-31 08:00`, in UTC.
fn time(form: &Form, name: &'static str, is_asked: bool) -> Result<Option<DateTime<Utc>>, Mistake> {
    let Some(text) = form.given(name).filter(|_| !is_asked) else { return Ok(None) };
    let plain = text.replace('T', " ");
    let plain = plain.trim_end_matches('Z').trim_end_matches(" UTC");
    let read = |format| NaiveDateTime::parse_from_str(plain, format).ok();
    match read("%Y-%m-%d %H:%M:%S").or_else(|| read("%Y-%m-%d %H:%M")) {
        Some(time) => Ok(Some(time.and_utc())),
        None => Err(Mistake::of(name, &format!("{text:?} is not a time: write 2026-01-31 08:00, in UTC"))),
    }
}

impl OnSchedule {
    pub(super) fn read(verb: Verb, form: &Form, is_asked: bool) -> Result<Self, Failure> {
        let (name, reason, key) = (form.name("schedule")?, form.reason(is_asked)?, form.request()?);
        let (from, until) = (time(form, "from", is_asked)?, time(form, "until", is_asked)?);
        Ok(Self { verb, name, reason, from, until, key })
    }

    async fn record(&self, site: &Site) -> Result<(ScheduleRecord, DateTime<Utc>), Failure> {
        let (schedules, now) = site.operator().list_schedules().await?;
        let found = schedules.into_iter().find(|schedule| schedule.name == self.name);
        Ok((found.ok_or_else(|| Failure::NotFound(format!("There is no schedule {:?}.", self.name)))?, now))
    }

    /// The ticks between the two times of the form, at most one more than is allowed.
    fn ticks(&self, record: &ScheduleRecord, now: DateTime<Utc>) -> Result<Vec<DateTime<Utc>>, Failure> {
        let mistake = |text: &str| Err(Mistake::of("from", text).into());
        let Some(from) = self.from else { return mistake("Enter the time from which ticks are to be made up") };
        let until = self.until.unwrap_or(now);
        if until > now {
            return Err(Mistake::of("until", "The time must have passed").into());
        }
        if from >= until {
            return mistake("The time must begin before it ends");
        }
        let schedule = Schedule::parse(&record.expression, &record.timezone)
            .map_err(|problem| Mistake::of_form(&problem.to_string()))?;
        let start = from - chrono::TimeDelta::seconds(1);
        let ticks = std::iter::successors(schedule.next_after(start), |tick| schedule.next_after(*tick));
        let ticks: Vec<_> = ticks.take_while(|tick| *tick <= until).take(MOST_TICKS + 1).collect();
        match ticks.len() {
            0 => mistake("The schedule has no tick in this time"),
            number if number > MOST_TICKS => {
                mistake(&format!("The schedule has more than {MOST_TICKS} ticks in this time. Choose a shorter one"))
            }
            _ => Ok(ticks),
        }
    }

    /// Enqueues jobs of the schedule. If the form has a key that was used before, it enqueues none, and returns the
    /// answer of the page.
    async fn enqueue(
        &self,
        site: &Site,
        jobs: &[NewJob],
        action: &str,
        actor: &str,
    ) -> Result<Result<Scheduled, Done>, Failure> {
        let (operator, name) = (site.operator(), self.name.as_str());
        let Some(key) = &self.key else {
            return Ok(Ok(operator.enqueue_for_schedule(name, jobs, action, actor).await?));
        };
        Ok(match operator.enqueue_for_schedule_once(key, name, jobs, action, actor).await? {
            Once::Now(scheduled) => Ok(scheduled),
            Once::Before(entry) => {
                Err(done_before(&entry, vec![(site.base.to("/schedules"), "all schedules".to_owned())]))
            }
        })
    }

    fn job(&self, site: &Site, record: &ScheduleRecord, at: RunAt) -> NewJob {
        let options = site.redactor.options(&record.kind).unwrap_or_default();
        record.job.at(&record.kind, &options, at)
    }

    async fn done(&self, site: &Site, scheduled: Scheduled, title: String) -> Result<Done, Failure> {
        let problem = match scheduled {
            Scheduled::Done if title.is_empty() => return Ok(Done::Page("/schedules".to_owned())),
            Scheduled::Done => None,
            // Another operator was faster, and the page shows it.
            Scheduled::Unchanged => return Ok(Done::Page("/schedules".to_owned())),
            Scheduled::NotFound => Some("This schedule no longer exists."),
            Scheduled::Newer => {
                Some("The schedule uses a feature of a later version. Only that version's program can change it.")
            }
            Scheduled::Exists => Some("Another schedule has this name."),
            Scheduled::Declared => Some("Code declares the schedule, so it can only be paused."),
            _ => Some("The database's answer is unknown to this version. Look at the Schedules page."),
        };
        let jobs = self.record(site).await.map(|(record, _)| site.base.with("/jobs", [("kind", record.kind.as_str())]));
        Ok(Done::Report(Report {
            title: if problem.is_none() { title } else { "Nothing was changed".to_owned() },
            whole: problem.is_none(),
            lines: problem.map(str::to_owned).into_iter().collect(),
            links: jobs
                .into_iter()
                .map(|url| (url, "its jobs".to_owned()))
                .chain([(site.base.to("/schedules"), "all schedules".to_owned())])
                .collect(),
        }))
    }
}

#[async_trait]
impl Act for OnSchedule {
    fn right(&self) -> Action {
        Action::Schedules
    }

    fn is_cumulative(&self) -> bool {
        matches!(self.verb, Verb::Trigger | Verb::Backfill)
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let (record, now) = self.record(site).await?;
        let name = &self.name;
        let notes: Vec<_> = record.paused.iter().map(|pause| format!("It is {pause}.")).collect();
        let preview = Preview { notes, back: site.base.to("/schedules"), ..Preview::default() };
        Ok(match self.verb {
            Verb::Trigger => Preview {
                question: format!("Enqueue a job of {name} now?"),
                effect: "It is enqueued outside the schedule, whose next ticks stay as they are.".to_owned(),
                button: "Trigger".to_owned(),
                ..preview
            },
            Verb::Pause => Preview {
                question: format!("Pause the schedule {name}?"),
                effect: "It does not tick until it is resumed.".to_owned(),
                button: if record.paused.is_none() { "Pause".to_owned() } else { String::new() },
                fields: vec![Field::reason()],
                ..preview
            },
            Verb::Resume => Preview {
                question: format!("Resume the schedule {name}?"),
                effect: format!(
                    "Its catch_up applies to the ticks that were missed in the meantime: {}.",
                    record.catch_up.as_str()
                ),
                button: if record.paused.is_some() { "Resume".to_owned() } else { String::new() },
                ..preview
            },
            Verb::Backfill => {
                let day_ago = now - chrono::TimeDelta::days(1);
                let field = |name, label, at: DateTime<Utc>, hint| {
                    Field::line(name, label, hint).holding(at.format("%Y-%m-%d %H:%M").to_string())
                };
                Preview {
                    question: format!("Make up ticks of {name}?"),
                    effect: format!(
                        "A job is enqueued for each tick of the time, at most {MOST_TICKS}. Ticks that had a job get another one."
                    ),
                    button: "Backfill".to_owned(),
                    fields: vec![
                        field("from", "From", day_ago, "In UTC, such as 2026-01-31 08:00."),
                        field("until", "Until", now, "In UTC."),
                    ],
                    ..preview
                }
            }
        })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        let operator = site.operator();
        let (record, now) = self.record(site).await?;
        let (scheduled, title) = match self.verb {
            Verb::Pause => (operator.pause_schedule(&self.name, actor, self.reason.as_deref()).await?, String::new()),
            Verb::Resume => (operator.resume_schedule(&self.name, actor).await?, String::new()),
            Verb::Trigger => {
                let job = self.job(site, &record, RunAt::Now);
                match self.enqueue(site, &[job], "trigger", actor).await? {
                    Ok(scheduled) => (scheduled, format!("A job of {} is enqueued", self.name)),
                    Err(before) => return Ok(before),
                }
            }
            Verb::Backfill => {
                let ticks = self.ticks(&record, now)?;
                let jobs: Vec<_> = ticks.iter().map(|tick| self.job(site, &record, RunAt::Exactly(*tick))).collect();
                match self.enqueue(site, &jobs, "backfill", actor).await? {
                    Ok(scheduled) => {
                        (scheduled, format!("{} of {} enqueued", counted(jobs.len(), "job", "jobs"), self.name))
                    }
                    Err(before) => return Ok(before),
                }
            }
        };
        self.done(site, scheduled, title).await
    }
}
