//! Who may do what: the answer of the application to each request.

use std::collections::BTreeSet;
use std::fmt;

/// What an operator may do in the dashboard, besides reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Make ended and waiting jobs available now, with another attempt.
    Retry,
    /// Make scheduled and retrying jobs available now.
    RunNow,
    /// Cancel waiting and running jobs.
    Cancel,
    /// Discard waiting jobs.
    Discard,
    /// Delete jobs, and purge queues.
    Delete,
    /// Change the priority of waiting jobs.
    Reprioritise,
    /// Move waiting jobs to another queue.
    Move,
    /// Enqueue a copy of a job, and run ended jobs again.
    Copy,
    /// Pause and resume queues and kinds.
    Pause,
    /// Change how many jobs of a queue each worker runs at once.
    Slots,
    /// Change limits, release permits and unique keys of jobs, and continue with halted sequences.
    Limits,
    /// Ask workers to claim nothing more, or to stop.
    Workers,
    /// Trigger, pause, resume and backfill schedules.
    Schedules,
    /// Cancel an operation on many jobs.
    Operations,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 14] = [
        Self::Retry,
        Self::RunNow,
        Self::Cancel,
        Self::Discard,
        Self::Delete,
        Self::Reprioritise,
        Self::Move,
        Self::Copy,
        Self::Pause,
        Self::Slots,
        Self::Limits,
        Self::Workers,
        Self::Schedules,
        Self::Operations,
    ];

    /// The name, as an error shows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::RunNow => "run now",
            Self::Cancel => "cancel",
            Self::Discard => "discard",
            Self::Delete => "delete",
            Self::Reprioritise => "reprioritise",
            Self::Move => "move",
            Self::Copy => "copy",
            Self::Pause => "pause",
            Self::Slots => "slots",
            Self::Limits => "limits",
            Self::Workers => "workers",
            Self::Schedules => "schedules",
            Self::Operations => "operations",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the sender of one request may do. The application's callback returns it, see
/// [`Dashboard::rights`](crate::Dashboard::rights).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    actor: String,
    read: bool,
    may: BTreeSet<Action>,
}

impl Rights {
    /// Nothing: the request is refused, whatever it asks for.
    pub const fn none() -> Self {
        Self { actor: String::new(), read: false, may: BTreeSet::new() }
    }

    /// May read all pages. `actor` is the name of the operator.
    pub fn read_only(actor: impl Into<String>) -> Self {
        Self { actor: actor.into(), read: true, may: BTreeSet::new() }
    }

    /// May read all pages and do everything. `actor` is the name with which the actions are recorded.
    pub fn everything(actor: impl Into<String>) -> Self {
        Self { actor: actor.into(), read: true, may: Action::ALL.into() }
    }

    /// May do this, too.
    ///
    /// ```
    /// use diesel_jobs_web::{Action, Rights};
    ///
    /// let rights = Rights::read_only("ada").allow(Action::Retry).allow(Action::Cancel);
    /// assert!(rights.may(Action::Retry) && !rights.may(Action::Delete));
    /// ```
    #[must_use]
    pub fn allow(mut self, action: Action) -> Self {
        self.may.insert(action);
        self
    }

    /// May not do this.
    #[must_use]
    pub fn deny(mut self, action: Action) -> Self {
        self.may.remove(&action);
        self
    }

    /// The name of the operator.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Whether pages may be read. Without this nothing is answered.
    pub const fn may_read(&self) -> bool {
        self.read
    }

    /// Whether this may be done.
    pub fn may(&self, action: Action) -> bool {
        self.read && self.may.contains(&action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_closed_unless_they_say_more() {
        for action in Action::ALL {
            assert!(!Rights::none().may(action) && !Rights::read_only("ada").may(action));
            // A user without the right to read has no right to act.
            assert!(!Rights::none().allow(action).may(action));
            assert!(Rights::everything("ada").may(action));
            assert!(!Rights::everything("ada").deny(action).may(action));
        }
        assert!(!Rights::none().may_read());
    }
}
