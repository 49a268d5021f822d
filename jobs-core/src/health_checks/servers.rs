//! Who serves the waiting jobs: the live workers, or the program that the doctor was given.

use crate::queue_pattern::{fits, is_pattern};
use crate::record::WorkerRecord;
use crate::storage::Program;

/// What waiting jobs and schedules are compared with.
pub(super) struct Servers<'a> {
    workers: Vec<&'a WorkerRecord>,
    program: Option<&'a Program>,
    /// How the messages name them.
    pub(super) whose: Whose,
}

/// With whom jobs are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The workers that claim jobs.
    LiveWorkers,
    /// The program, because no worker claims jobs, or the program and the workers.
    ProgramInstead,
    /// The program, as if it had replaced all workers.
    ProgramAlone,
    /// Nobody: no worker claims jobs, and no program was given.
    Nobody,
}

impl<'a> Servers<'a> {
    pub(super) fn of(workers: &'a [WorkerRecord], program: Option<&'a Program>) -> Self {
        let claiming: Vec<&WorkerRecord> = workers.iter().filter(|worker| worker.claims()).collect();
        match program {
            Some(one) if one.replaces_workers => Self { workers: Vec::new(), program, whose: Whose::ProgramAlone },
            Some(one) if one.joins_workers || claiming.is_empty() => {
                Self { workers: claiming, program, whose: Whose::ProgramInstead }
            }
            None if claiming.is_empty() => Self { workers: claiming, program, whose: Whose::Nobody },
            _ => Self { workers: claiming, program: None, whose: Whose::LiveWorkers },
        }
    }

    /// Whether one of them serves the queue.
    pub(super) fn serve(&self, queue: &str) -> bool {
        self.workers_of(queue).next().is_some() || self.program.is_some_and(|program| serves(program, queue))
    }

    /// Whether one of them runs jobs of this kind in this queue.
    pub(super) fn run(&self, kind: &str, queue: &str) -> bool {
        self.workers_of(queue).any(|worker| knows(worker, kind))
            || self.program.is_some_and(|one| serves(one, queue) && one.kinds.contains(kind))
    }

    /// Whether one of them knows the kind.
    pub(super) fn know(&self, kind: &str) -> bool {
        self.workers.iter().any(|worker| knows(worker, kind))
            || self.program.is_some_and(|program| program.kinds.contains(kind))
    }

    /// The workers that claim jobs of this queue.
    pub(super) fn workers_of(&self, queue: &str) -> impl Iterator<Item = &'a WorkerRecord> {
        self.workers.iter().copied().filter(move |worker| worker.serves(queue))
    }

    /// The names of the queues that they serve, without patterns.
    pub(super) fn queues(&self) -> impl Iterator<Item = &str> {
        let of_workers = self.workers.iter().flat_map(|worker| &worker.queues);
        of_workers
            .chain(self.program.iter().flat_map(|program| &program.queues))
            .map(String::as_str)
            .filter(|name| !is_pattern(name))
    }

    /// The kinds that they know.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        let of_workers = self.workers.iter().filter_map(|worker| worker.kinds.as_ref()).flatten();
        of_workers.chain(self.program.iter().flat_map(|program| &program.kinds)).map(String::as_str)
    }
}

fn serves(program: &Program, queue: &str) -> bool {
    !is_pattern(queue) && program.queues.iter().any(|name| fits(name, queue))
}

/// A worker of an earlier version does not say which kinds it knows.
fn knows(worker: &WorkerRecord, kind: &str) -> bool {
    worker.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|known| known == kind))
}

/// How a message names a live worker.
pub(super) fn named(WorkerRecord { host, pid, version, .. }: &WorkerRecord) -> String {
    let version = version.as_ref().map(|version| format!(", version {version}")).unwrap_or_default();
    format!("{host}:{pid}{version}")
}

/// How many live workers declare something else than is stored, besides the one that the message names.
pub(super) fn more_differ(workers: usize) -> String {
    match workers {
        0 => String::new(),
        1 => "; 1 more live worker differs, too".to_owned(),
        more => format!("; {more} more live workers differ, too"),
    }
}
