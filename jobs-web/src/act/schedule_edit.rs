//! Adds a schedule, changes when one ticks, goes back to what the code declares, and removes what an operator has
//! added.

use async_trait::async_trait;
use diesel_jobs_core::storage::{
    NewSchedule, ScheduleChange, ScheduleProblem, ScheduleRecord, Scheduled, ScheduledJob,
};
use diesel_jobs_core::{CatchUp, InvalidSchedule};

use super::{Act, Done, Form, Preview, Report};
use crate::failure::Failure;
use crate::field::{Field, Input, Mistake};
use crate::format::sentence;
use crate::rights::Action;
use crate::site::Site;

/// What can be done with the row of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Add,
    Change,
    Reset,
    Remove,
}

impl Verb {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "schedule-add" => Some(Self::Add),
            "schedule-change" => Some(Self::Change),
            "schedule-reset" => Some(Self::Reset),
            "schedule-remove" => Some(Self::Remove),
            _ => None,
        }
    }
}

/// A change of a schedule, with the values of the form. The values are checked when the change is made. Then a mistake
/// is shown in the form.
#[derive(Debug)]
pub(crate) struct OnSchedule {
    verb: Verb,
    name: String,
    /// Names and values of the fields.
    given: Vec<(&'static str, String)>,
}

const FIELDS: [&str; 8] = ["kind", "cron", "timezone", "catch_up", "args", "queue", "priority", "max_attempts"];
const CATCH_UP: [&str; 3] = ["skip", "last", "all"];

fn mistake(field: &'static str, text: &str) -> Failure {
    Mistake::of(field, text).into()
}

/// A problem of the schedule, beside the field that has it.
fn problem(problem: ScheduleProblem) -> Failure {
    mistake(problem.part, &problem.text)
}

/// When it ticks.
fn when(expression: &str, timezone: &str, catch_up: &str) -> Vec<Field> {
    let cron = "Such as 0 2 * * * for every night at two. Six fields begin with seconds. An interval is written as @every 90m.";
    vec![
        Field::line("cron", "Cron expression", cron).holding(expression),
        Field::line("timezone", "Time zone", "An IANA name, such as Europe/Paris or UTC.").holding(timezone),
        Field::line("catch_up", "Missed ticks", "skip: none is made up. last: the last one. all: each of them.")
            .filled_by(Input::Choice(&CATCH_UP))
            .holding(catch_up),
    ]
}

impl OnSchedule {
    pub(super) fn read(verb: Verb, form: &Form) -> Result<Self, Failure> {
        // The name of a new schedule is a field like the others.
        let name = if verb == Verb::Add { form.get("name").trim().to_owned() } else { form.name("schedule")? };
        let given = FIELDS.iter().filter_map(|field| form.given(field).map(|value| (*field, value))).collect();
        Ok(Self { verb, name, given })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
    }

    fn needed(&self, name: &'static str, what: &str) -> Result<String, Failure> {
        self.get(name).map(str::to_owned).ok_or_else(|| mistake(name, &format!("{what} is missing")))
    }

    fn catch_up(&self) -> Result<Option<CatchUp>, Failure> {
        let wrong = |problem: InvalidSchedule| mistake("catch_up", &problem.to_string());
        let read = |word: &str| word.parse::<CatchUp>().map_err(wrong);
        self.get("catch_up").map(read).transpose()
    }

    fn number<T: std::str::FromStr>(&self, name: &'static str, range: &str) -> Result<Option<T>, Failure> {
        let wrong = |text: &str| mistake(name, &format!("{text:?} is not a number: write one {range}"));
        self.get(name).map(|text| text.parse::<T>().map_err(|_| wrong(text))).transpose()
    }

    fn new_schedule(&self, site: &Site) -> Result<NewSchedule, Failure> {
        if self.name.is_empty() {
            return Err(mistake("name", "The name is missing"));
        }
        let new = NewSchedule {
            name: self.name.clone(),
            kind: self.needed("kind", "The kind")?,
            expression: self.needed("cron", "The cron expression")?,
            timezone: self.get("timezone").unwrap_or("UTC").to_owned(),
            catch_up: self.catch_up()?.unwrap_or(CatchUp::Skip),
            job: ScheduledJob {
                args: self.get("args").map(str::to_owned),
                queue: self.get("queue").map(str::to_owned),
                priority: self.number("priority", "from -32768 to 32767")?,
                max_attempts: self.number("max_attempts", "from 1 to 32767")?,
            },
        };
        new.validate(&site.redactor.options(&new.kind).unwrap_or_default()).map_err(problem)?;
        Ok(new)
    }

    async fn record(&self, site: &Site) -> Result<ScheduleRecord, Failure> {
        let (schedules, _) = site.operator().list_schedules().await?;
        let found = schedules.into_iter().find(|schedule| schedule.name == self.name);
        found.ok_or_else(|| Failure::NotFound(format!("There is no schedule {:?}.", self.name)))
    }

    async fn preview_of_change(&self, site: &Site) -> Result<Preview, Failure> {
        let (record, name) = (self.record(site).await?, &self.name);
        Ok(match self.verb {
            Verb::Add | Verb::Change => Preview {
                question: format!("Change the schedule {name}?"),
                effect: "Workers follow within five seconds, and do not overwrite it with what the code declares. With another \
                         expression or time zone it continues from now."
                    .to_owned(),
                button: "Change".to_owned(),
                fields: when(&record.expression, &record.timezone, record.catch_up.as_str()),
                ..Preview::default()
            },
            Verb::Reset => Preview {
                question: format!("Reset the schedule {name}?"),
                effect: "It goes back to what the code declares, and continues from now.".to_owned(),
                notes: record.declared.iter().map(|it| format!("The code declares {} ({}).", it.expression, it.timezone)).collect(),
                button: if record.declared.is_some() { "Reset".to_owned() } else { String::new() },
                ..Preview::default()
            },
            Verb::Remove => Preview {
                question: format!("Remove the schedule {name}?"),
                effect: "It stops ticking. Jobs that it has enqueued stay.".to_owned(),
                button: "Remove".to_owned(),
                destroys: true,
                ..Preview::default()
            },
        })
    }
}

fn preview_of_addition() -> Preview {
    let mut fields = vec![
        Field::line("name", "Name", "A name that no other schedule has."),
        Field::line("kind", "Kind", "The kind of its jobs. A worker must know it."),
    ];
    fields.extend(when("", "UTC", "skip"));
    fields.extend([
        Field::line("args", "Arguments", "A JSON object. Empty: no arguments.").optional().filled_by(Input::Text),
        Field::line("queue", "Queue", "Empty: the queue of the kind.").optional(),
        Field::line("priority", "Priority", "Empty: the priority of the kind.").optional(),
        Field::line("max_attempts", "Attempts", "Empty: as the kind says.").optional(),
    ]);
    Preview {
        question: "Add a schedule?".to_owned(),
        effect: "It ticks from now on. Workers notice it within five seconds, and within a minute if there was no schedule before.".to_owned(),
        button: "Add".to_owned(),
        fields,
        ..Preview::default()
    }
}

#[async_trait]
impl Act for OnSchedule {
    fn right(&self) -> Action {
        Action::Schedules
    }

    async fn preview(&self, site: &Site) -> Result<Preview, Failure> {
        let preview = match self.verb {
            Verb::Add => preview_of_addition(),
            _ => self.preview_of_change(site).await?,
        };
        Ok(Preview { back: site.base.to("/schedules"), ..preview })
    }

    async fn perform(&self, site: &Site, actor: &str) -> Result<Done, Failure> {
        let (operator, name) = (site.operator(), self.name.as_str());
        let scheduled = match self.verb {
            Verb::Add => operator.add_schedule(&self.new_schedule(site)?, actor).await?,
            Verb::Change => {
                let change = ScheduleChange {
                    expression: self.get("cron").map(str::to_owned),
                    timezone: self.get("timezone").map(str::to_owned),
                    catch_up: self.catch_up()?,
                };
                change.validate(&self.record(site).await?).map_err(problem)?;
                operator.change_schedule(name, &change, actor).await?
            }
            Verb::Reset => operator.reset_schedule(name, actor).await?,
            Verb::Remove => operator.remove_schedule(name, actor).await?,
        };
        let refusal = match scheduled {
            Scheduled::Done | Scheduled::Unchanged => return Ok(Done::Page("/schedules".to_owned())),
            Scheduled::Exists => {
                let exists = sentence(&self.record(site).await?.exists_text()).replace('`', "");
                let advice =
                    "To change when it ticks, press Change on the Schedules page. To add this one, write another name";
                return Err(mistake("name", &format!("{exists} {advice}")));
            }
            Scheduled::NotFound => format!("The schedule {name:?} no longer exists."),
            Scheduled::Declared => {
                format!("Code declares the schedule {name:?}, so it cannot be removed. It can be paused.")
            }
            Scheduled::Newer => format!(
                "The schedule {name:?} uses a feature of a later version. Only that version's program can change it."
            ),
            unknown => {
                format!("The database's answer for the schedule {name:?} is {unknown:?}. Look at the Schedules page.")
            }
        };
        Ok(Done::Report(Report {
            title: "Nothing was changed".to_owned(),
            lines: vec![refusal],
            links: vec![(site.base.to("/schedules"), "all schedules".to_owned())],
            ..Report::default()
        }))
    }
}
