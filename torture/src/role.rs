//! The roles in which the suite starts this program: the worker under test, or a load on the processor.

use std::process::{Command, ExitCode};
use std::{env, hint};

use anyhow::{Context as _, Result};
use diesel_jobs::WorkerBuilder;
use torture::history::Recorder;
use torture::process::end_with_parent;
use torture::workload::versions;

const ROLE: &str = "TORTURE_ROLE";
const HISTORY: &str = "TORTURE_HISTORY";
/// Set for a worker of a program that is one version behind.
pub(crate) const BEHIND: &str = "TORTURE_BEHIND";
/// Set for a worker process that ends at every panic, as if it was built with `panic = "abort"`.
pub(crate) const PANICS: &str = "TORTURE_PANICS";

/// Set to a number for a worker that serves this many queues: `tenant-0`, `tenant-1` and so on.
pub(crate) const QUEUES: &str = "TORTURE_QUEUES";

/// A role of this program other than the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The bundled worker, with the suite's jobs.
    Worker,
    /// Keeps a processor busy.
    Burner,
}

/// Returns the role of this process, or `None` if it is the suite.
pub(crate) fn ours() -> Option<Role> {
    let role = env::var(ROLE).ok()?;
    [Role::Worker, Role::Burner].into_iter().find(|known| known.name() == role)
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Burner => "burner",
        }
    }

    /// The command that starts it.
    pub(crate) fn command(self, history: &str) -> Result<Command> {
        let mut command = Command::new(env::current_exe().context("cannot find this program")?);
        command.env(ROLE, self.name()).env(HISTORY, history);
        Ok(command)
    }

    pub(crate) fn play(self) -> ExitCode {
        end_with_parent();
        match self {
            Self::Worker => diesel_jobs::cli::main_with(set_up),
            Self::Burner => loop {
                hint::spin_loop();
            },
        }
    }
}

async fn set_up(worker: WorkerBuilder) -> Result<WorkerBuilder> {
    let history = env::var(HISTORY).with_context(|| format!("{HISTORY} is not set"))?;
    if env::var_os(PANICS).is_some() {
        std::panic::set_hook(Box::new(|_| std::process::abort()));
    }
    let mut worker = worker.state(Recorder::start(history)?);
    if let Ok(queues) = env::var(QUEUES) {
        let queues: usize = queues.parse().with_context(|| format!("{QUEUES} is not a number"))?;
        worker = worker.clear_queues();
        for queue in (0..queues).map(|queue| format!("tenant-{queue}")) {
            worker = worker.declare_queue(&queue).serve(queue);
        }
    }
    Ok(if env::var_os(BEHIND).is_some() { worker.registry(versions::before()) } else { worker })
}
