//! The progress of the test: a bar on the terminal, and log lines at level info.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use super::numbers::number;
use super::step::Step;

/// The time between two updates of the bar.
const TICK: Duration = Duration::from_millis(200);

/// The bar. It shows the elapsed share of the time, because the number of steps is not known in advance.
pub(super) struct Progress {
    bar: ProgressBar,
    moves: JoinHandle<()>,
}

impl Progress {
    /// Starts the bar. It is not drawn if standard error is not a terminal.
    pub(super) fn start(time: Duration) -> Self {
        let length = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {elapsed:>3}  {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        let moved = bar.clone();
        let moves = tokio::spawn(async move {
            loop {
                moved.set_position(u64::try_from(moved.elapsed().as_millis()).unwrap_or(u64::MAX).min(length));
                tokio::time::sleep(TICK).await;
            }
        });
        Self { bar, moves }
    }

    /// Shows and logs what the test does now.
    pub(super) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        tracing::info!(target: "diesel_jobs", "{what}");
    }

    /// Shows and logs the rate of a step.
    pub(super) fn step(&self, label: &str, step: &Step) {
        self.say(&format!("{label}: {} jobs/s", number(step.jobs_per_second)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.moves.abort();
        self.bar.finish_and_clear();
    }
}
