//! What the processes of a fleet have told about their jobs, those of killed processes included.

/// How often each job was run, and how many statements met a conflict.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// The index is the job's id.
    runs: Vec<u8>,
    /// The newest total of each process.
    conflicts: Vec<u64>,
    /// How many jobs all processes together have completed.
    pub(crate) completed: u64,
}

impl Tally {
    pub(super) fn ran(&mut self, id: usize) {
        if self.runs.len() <= id {
            self.runs.resize(id + 1, 0);
        }
        self.runs[id] = self.runs[id].saturating_add(1);
    }

    pub(super) fn met(&mut self, place: usize, conflicts: u64) {
        if self.conflicts.len() <= place {
            self.conflicts.resize(place + 1, 0);
        }
        self.conflicts[place] = conflicts;
    }

    /// Returns how many jobs were run more than once.
    pub(crate) fn repeated(&self) -> usize {
        self.runs.iter().filter(|runs| **runs > 1).count()
    }

    /// Returns how many statements failed because of a conflict with another transaction.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_repeated_from_its_second_run_on_and_conflicts_are_totals_of_each_process() {
        let mut tally = Tally::default();
        [7, 2, 7, 3, 7, 3].into_iter().for_each(|id| tally.ran(id));
        [(0, 4), (2, 1), (0, 6)].into_iter().for_each(|(place, conflicts)| tally.met(place, conflicts));
        assert_eq!((tally.repeated(), tally.conflicts()), (2, 7));
    }
}
