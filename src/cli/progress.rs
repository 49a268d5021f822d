//! The progress bar of long commands. It is drawn on standard error, and only if that is a terminal.

use std::time::Duration;

use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{Count, OperationRecord};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::wording;

/// How often the elapsed time is drawn while nothing else changes.
const TICK: Duration = Duration::from_millis(250);
const OF_JOBS: &str = "[{bar:30}] {human_pos} of {human_len} jobs, {eta} left  {msg}";
const OF_IDS: &str = "[{bar:30}] {percent} % of the ids, {msg}";

/// A progress bar. It disappears when it is dropped.
pub(super) struct Progress {
    bar: ProgressBar,
    /// The lowest id, if the bar shows the share of the ids.
    first: Option<JobId>,
}

impl Progress {
    /// A bar that shows how many of these jobs are done.
    pub(super) fn of_jobs(jobs: u64) -> Self {
        Self { bar: bar(jobs, OF_JOBS), first: None }
    }

    /// A bar for an operation: by the jobs if their number is known, else by the ids.
    pub(super) fn of_operation(record: &OperationRecord, matched: Option<Count>) -> Self {
        match matched {
            Some(count) if count.is_exact => Self::of_jobs(count.jobs),
            _ => Self { bar: bar(distance(record.next_id, record.last_id), OF_IDS), first: Some(record.next_id) },
        }
    }

    /// Shows how many jobs are done.
    pub(super) fn at(&self, jobs: u64) {
        self.bar.set_position(jobs);
    }

    /// Shows how far an operation is.
    pub(super) fn at_record(&self, record: &OperationRecord) {
        let changed = u64::try_from(record.changed).unwrap_or_default();
        match self.first {
            None => self.at(changed),
            Some(first) => {
                self.at(distance(first, record.next_id));
                self.bar.set_message(format!("{} changed", wording::exactly(changed)));
            }
        }
    }

    /// Prints a line above the bar, or to standard error if no bar is drawn.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| super::output::complain(line));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    // The template is one of those above, which are well formed.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(TICK);
    bar
}

/// How many ids there are from one to the other.
fn distance(from: JobId, to: JobId) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0).saturating_add(1)).unwrap_or_default()
}
