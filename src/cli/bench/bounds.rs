//! The largest steps of the ramp: those that were asked for, limited so that other users of the server keep half of the
//! free connections.

use diesel_jobs_storage::bench::Server;

use super::args::BenchArgs;
use crate::cli::exit::CliError;

/// Connections of one worker process: its own, its heartbeat's, its listener's.
const OF_A_PROCESS: usize = 6;

/// Connections that a step of work opens besides the workers': two that enqueue, and one that enqueues the probes.
pub(super) const BESIDE_WORKERS: usize = 3;

/// The largest step of each series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) connections: usize,
    pub(super) processes: usize,
}

impl Bounds {
    /// Returns the bounds of the options. The default for `processes` depends on the number of processors.
    pub(super) fn asked(args: &BenchArgs, processors: usize) -> Self {
        let processes = args.processes.unwrap_or_else(|| (processors * 2).min(16));
        Self { connections: args.connections, processes }
    }

    /// Limits the bounds to half of the server's free connections. Also returns a sentence about it if that lowers
    /// them. Fails if that half is too small for any step.
    pub(super) fn within(self, server: &Server) -> Result<(Self, Option<String>), CliError> {
        let Some(free) = server.free_connections else { return Ok((self, None)) };
        // One more connection creates and drops the test's schema.
        let ours = (free / 2).saturating_sub(BESIDE_WORKERS + 1);
        if ours <= OF_A_PROCESS {
            return Err(CliError::failed(format!(
                "the server has {free} free connections, and a load test that leaves half of them to others needs more; \
                 raise max_connections, or end sessions"
            )));
        }
        let bounds = Self {
            connections: self.connections.min(ours - OF_A_PROCESS),
            processes: self.processes.min(ours / OF_A_PROCESS),
        };
        let note = format!(
            "the server has {free} free connections; to leave half of them to others, at most {} connections and {} \
             processes are tried",
            bounds.connections, bounds.processes
        );
        Ok((bounds, (bounds != self).then_some(note)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(free: Option<usize>) -> Result<(Bounds, Option<String>), CliError> {
        let server =
            Server { name: String::new(), settings: vec![], free_connections: free, process: None, one_writer: false };
        Bounds { connections: 32, processes: 4 }.within(&server)
    }

    #[test]
    fn half_of_the_free_connections_are_left_to_others() {
        assert_eq!(within(None).unwrap(), (Bounds { connections: 32, processes: 4 }, None));
        assert_eq!(within(Some(97)).unwrap(), (Bounds { connections: 32, processes: 4 }, None));
        let (bounds, note) = within(Some(40)).unwrap();
        assert_eq!(bounds, Bounds { connections: 10, processes: 2 });
        assert!(note.unwrap().contains("at most 10 connections and 2 processes"));
        assert_eq!(within(Some(22)).unwrap().0, Bounds { connections: 1, processes: 1 });
        assert!(within(Some(21)).unwrap_err().to_string().contains("21 free connections"));
    }
}
