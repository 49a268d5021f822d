//! What happens to a schedule when an operator changes it, or resets it to what the code declares. No SQL.

use diesel_jobs_core::flags::schedules::OPERATORS;
use diesel_jobs_core::storage::{DeclaredSchedule, ScheduleChange};
use diesel_jobs_core::{CatchUp, Enqueued};

/// The part of a stored schedule that a change or a reset concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) expression: String,
    pub(crate) timezone: String,
    pub(crate) catch_up: CatchUp,
    /// What the code declares, if it is not what is stored.
    pub(crate) declared: Option<DeclaredSchedule>,
    /// Whether an operator has added it.
    pub(crate) is_added: bool,
    pub(crate) flags: i32,
}

impl Stored {
    /// Whether code declares it, so that workers would store it again. SQL may insert a schedule under another name.
    pub(crate) fn is_declared(&self) -> bool {
        self.declared.is_some() || (!self.is_added && self.name == self.kind)
    }

    /// Whether both have the same ticks.
    pub(crate) fn ticks_like(&self, other: &Self) -> bool {
        (&self.expression, &self.timezone) == (&other.expression, &other.timezone)
    }
}

/// The newest of the jobs that were enqueued for a schedule. A job that had their unique key before is none of them.
pub(crate) fn newest(enqueued: &[Enqueued]) -> Option<i64> {
    enqueued.iter().filter(|enqueued| !enqueued.is_existing()).map(|enqueued| enqueued.id().0).max()
}

/// The changed schedule. `None` if the change asks for nothing new.
pub(crate) fn changed(stored: &Stored, change: &ScheduleChange) -> Option<Stored> {
    let mut new = stored.clone();
    new.expression = change.expression.clone().unwrap_or(new.expression);
    new.timezone = change.timezone.clone().unwrap_or(new.timezone);
    new.catch_up = change.catch_up.unwrap_or(new.catch_up);
    if new == *stored {
        return None;
    }
    if stored.declared.is_none() && stored.is_declared() {
        let Stored { name, expression, timezone, catch_up, .. } = stored.clone();
        new.declared = Some(DeclaredSchedule { name, expression, timezone, catch_up });
    }
    new.flags |= OPERATORS;
    Some(new)
}

/// The schedule as the code declares it. `None` if no operator has changed it.
pub(crate) fn reset(stored: &Stored) -> Option<Stored> {
    let DeclaredSchedule { expression, timezone, catch_up, .. } = stored.declared.clone()?;
    let (kind, flags) = (stored.name.clone(), stored.flags & !OPERATORS);
    Some(Stored { kind, expression, timezone, catch_up, declared: None, is_added: false, flags, ..stored.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(is_added: bool) -> Stored {
        Stored {
            name: "report".to_owned(),
            kind: "report".to_owned(),
            expression: "0 0 2 * * *".to_owned(),
            timezone: "UTC".to_owned(),
            catch_up: CatchUp::Skip,
            declared: None,
            is_added,
            flags: if is_added { OPERATORS } else { 0 },
        }
    }

    fn at_three() -> ScheduleChange {
        ScheduleChange { expression: Some("0 0 3 * * *".to_owned()), ..ScheduleChange::default() }
    }

    #[test]
    fn a_change_of_a_declared_schedule_can_be_reset() {
        let first = changed(&stored(false), &at_three()).unwrap();
        let second = ScheduleChange { timezone: Some("Europe/Paris".to_owned()), ..ScheduleChange::default() };
        let second = changed(&first, &second).unwrap();
        assert_eq!((second.expression.as_str(), second.flags), ("0 0 3 * * *", OPERATORS));
        assert!(!second.ticks_like(&stored(false)));
        assert_eq!(reset(&second).unwrap(), stored(false));
    }

    #[test]
    fn a_change_that_asks_for_nothing_new_is_none() {
        let same = ScheduleChange { catch_up: Some(CatchUp::Skip), ..ScheduleChange::default() };
        assert_eq!(changed(&stored(false), &same), None);
        assert_eq!(changed(&stored(false), &ScheduleChange::default()), None);
    }

    #[test]
    fn an_added_schedule_has_nothing_to_go_back_to() {
        let changed = changed(&stored(true), &at_three()).unwrap();
        assert_eq!((changed.declared.as_ref(), changed.is_declared()), (None, false));
        assert_eq!(reset(&changed), None);
    }
}
