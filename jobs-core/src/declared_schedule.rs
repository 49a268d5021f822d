//! Schedules as the code of a program declares them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::schedule::{CatchUp, ScheduleSpec};

/// A schedule as code declares it, as the database stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredSchedule {
    /// Its name: the kind.
    #[serde(skip)]
    pub name: String,
    /// The cron expression.
    pub expression: String,
    /// The IANA time zone.
    pub timezone: String,
    /// How missed ticks are treated.
    pub catch_up: CatchUp,
}

impl DeclaredSchedule {
    pub(crate) fn new(name: String, spec: ScheduleSpec) -> Self {
        let ScheduleSpec { expression, timezone, catch_up } = spec;
        Self { name, expression: expression.to_owned(), timezone: timezone.to_owned(), catch_up }
    }

    /// Whether a stored schedule is as the code declares it.
    pub fn ticks_like(&self, expression: &str, timezone: &str, catch_up: &str) -> bool {
        (&*self.expression, &*self.timezone, self.catch_up.as_str()) == (expression, timezone, catch_up)
    }
}

/// The schedules that the code of a worker declares, by name. The worker stores them when it registers.
pub type Declarations = BTreeMap<String, DeclaredSchedule>;

/// Whether one of these workers declares the schedule of this name as it is stored.
pub fn is_declared_so<'a>(
    workers: impl IntoIterator<Item = &'a Declarations>,
    name: &str,
    (expression, timezone, catch_up): (&str, &str, &str),
) -> bool {
    let mut of_name = workers.into_iter().filter_map(|declared| declared.get(name));
    of_name.any(|declared| declared.ticks_like(expression, timezone, catch_up))
}
