//! Adds a schedule, changes when one ticks, goes back to what the code declares, and removes what an operator has added.

use async_trait::async_trait;
use diesel_jobs_core::CatchUp;
use diesel_jobs_core::storage::{NewSchedule, ScheduleChange, ScheduleRecord, Scheduled, ScheduledJob};

use super::{Act, Done, Field, Form, Input, Preview, Report};
use crate::failure::Failure;
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

/// A change of a schedule, with what the form says. It is read when it is made, so that a mistake is shown beside the form.
#[derive(Debug)]
pub(crate) struct OnSchedule {
    verb: Verb,
    name: String,
    /// Names and values of the fields.
    given: Vec<(&'static str, String)>,
}

const FIELDS: [&str; 8] = ["kind", "cron", "timezone", "catch_up", "args", "queue", "priority", "max_attempts"];
const CATCH_UP: [&str; 3] = ["skip", "last", "all"];

fn malformed(text: impl ToString) -> Failure {
    Failure::Malformed(text.to_string())
}

fn field(name: &'static str, label: &'static str, value: &str, required: bool, hint: &'static str) -> Field {
    Field { name, label, value: value.to_owned(), required, hint, input: Input::Line }
}

/// When it ticks.
fn when(expression: &str, timezone: &str, catch_up: &str) -> Vec<Field> {
    vec![
        field(
            "cron",
            "Cron expression",
            expression,
            true,
            "Such as 0 2 * * * for every night at two. Six fields begin with seconds.",
        ),
        field("timezone", "Time zone", timezone, true, "An IANA name, such as Europe/Paris or UTC."),
        Field {
            input: Input::Choice(&CATCH_UP),
            ..field(
                "catch_up",
                "Missed ticks",
                catch_up,
                true,
                "skip: none is made up. last: the last one. all: each of them.",
            )
        },
    ]
}

impl OnSchedule {
    pub(super) fn read(verb: Verb, form: &Form, is_asked: bool) -> Result<Self, Failure> {
        let name = if verb == Verb::Add && is_asked { form.get("name").to_owned() } else { form.name("schedule")? };
        let given = FIELDS.iter().filter_map(|field| form.given(field).map(|value| (*field, value))).collect();
        Ok(Self { verb, name, given })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
    }

    fn needed(&self, name: &str, what: &str) -> Result<String, Failure> {
        self.get(name).map(str::to_owned).ok_or_else(|| malformed(format!("{what} is missing.")))
    }

    fn catch_up(&self) -> Result<Option<CatchUp>, Failure> {
        self.get("catch_up").map(|word| word.parse().map_err(malformed)).transpose()
    }

    fn number<T: std::str::FromStr>(&self, name: &str, range: &str) -> Result<Option<T>, Failure> {
        let read = |text: &str| text.parse().map_err(|_| malformed(format!("{name}: {text:?} is no number {range}.")));
        self.get(name).map(read).transpose()
    }

    fn new_schedule(&self) -> Result<NewSchedule, Failure> {
        let max_attempts: Option<u16> = self.number("max_attempts", "from 1 to 32767")?;
        if max_attempts.is_some_and(|attempts| !(1..=32_767).contains(&attempts)) {
            return Err(malformed("max_attempts: write a number from 1 to 32767."));
        }
        Ok(NewSchedule {
            name: self.name.clone(),
            kind: self.needed("kind", "The kind")?,
            expression: self.needed("cron", "The cron expression")?,
            timezone: self.get("timezone").unwrap_or("UTC").to_owned(),
            catch_up: self.catch_up()?.unwrap_or(CatchUp::Skip),
            job: ScheduledJob {
                args: self.get("args").map(str::to_owned),
                queue: self.get("queue").map(str::to_owned),
                priority: self.number("priority", "from -32768 to 32767")?,
                max_attempts,
            },
        })
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
                         expression or time zone it goes on from now."
                    .to_owned(),
                button: "Change".to_owned(),
                fields: when(&record.expression, &record.timezone, record.catch_up.as_str()),
                ..Preview::default()
            },
            Verb::Reset => Preview {
                question: format!("Reset the schedule {name}?"),
                effect: "It becomes again what the code declares, and goes on from now.".to_owned(),
                notes: record.declared.iter().map(|it| format!("The code declares {} ({}).", it.expression, it.timezone)).collect(),
                button: if record.declared.is_some() { "Reset".to_owned() } else { String::new() },
                ..Preview::default()
            },
            Verb::Remove => Preview {
                question: format!("Remove the schedule {name}?"),
                effect: "It ticks no more. Jobs that it has enqueued stay.".to_owned(),
                button: "Remove".to_owned(),
                destroys: true,
                ..Preview::default()
            },
        })
    }
}

fn preview_of_addition() -> Preview {
    let mut fields = vec![
        field("name", "Name", "", true, "A name that no other schedule has."),
        field("kind", "Kind", "", true, "The kind of its jobs. A worker must know it."),
    ];
    fields.extend(when("", "UTC", "skip"));
    fields.extend([
        Field { input: Input::Text, ..field("args", "Arguments", "", false, "A JSON object. Empty: no arguments.") },
        field("queue", "Queue", "", false, "Empty: the queue of the kind."),
        field("priority", "Priority", "", false, "Empty: the priority of the kind."),
        field("max_attempts", "Attempts", "", false, "Empty: as the kind says."),
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
            Verb::Add => operator.add_schedule(&self.new_schedule()?, actor).await?,
            Verb::Change => {
                let change = ScheduleChange {
                    expression: self.get("cron").map(str::to_owned),
                    timezone: self.get("timezone").map(str::to_owned),
                    catch_up: self.catch_up()?,
                };
                operator.change_schedule(name, &change, actor).await?
            }
            Verb::Reset => operator.reset_schedule(name, actor).await?,
            Verb::Remove => operator.remove_schedule(name, actor).await?,
        };
        let problem = match scheduled {
            Scheduled::Done | Scheduled::Unchanged => return Ok(Done::Page("/schedules".to_owned())),
            Scheduled::Exists => {
                return Err(malformed(format!("There is a schedule {name:?} already. Write another name.")));
            }
            Scheduled::NotFound => format!("There is no schedule {name:?} any more."),
            Scheduled::Declared => {
                format!("Code declares the schedule {name:?}, so it cannot be removed. It can be paused.")
            }
            Scheduled::Newer => format!(
                "The schedule {name:?} uses a feature of a later version. Only that version's program can change it."
            ),
        };
        Ok(Done::Report(Report {
            title: "Nothing was changed".to_owned(),
            lines: vec![problem],
            links: vec![(site.base.to("/schedules"), "all schedules".to_owned())],
            ..Report::default()
        }))
    }
}
