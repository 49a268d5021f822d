//! Enqueues one job in a transaction of its own, or many in one transaction.

use anyhow::Result;
use diesel::prelude::*;

use super::NOW;
use super::native::Native;
use crate::raw::seed::ARGS;

const COLUMNS: &str = "insert into jobs_job (kind, queue, priority, max_attempts, tags, args, run_at) values ";
/// Jobs per statement.
const CHUNK: usize = 1000;

/// Returns the pieces of a statement for this many jobs. A bind goes between two pieces; each job has three binds.
fn pieces(jobs: usize) -> Vec<String> {
    let end = format!(", {NOW})");
    let mut pieces = vec![format!("{COLUMNS}(")];
    for job in 1..=jobs {
        let after = if job == jobs { format!("{end} returning id") } else { format!("{end}, (") };
        pieces.extend([", ".to_owned(), ", 0, 25, '[]', ".to_owned(), after]);
    }
    pieces
}

/// A statement that enqueues this many jobs that do nothing.
pub(crate) struct Enqueuer {
    pieces: Vec<String>,
    jobs: usize,
}

impl Enqueuer {
    pub(crate) fn one() -> Self {
        Self { pieces: pieces(1), jobs: 1 }
    }

    /// Enqueues the jobs and returns their ids.
    pub(crate) fn enqueue(&self, conn: &mut SqliteConnection) -> Result<Vec<i64>> {
        let pieces: Vec<&str> = self.pieces.iter().map(String::as_str).collect();
        let binds = ["noop", "default", ARGS].repeat(self.jobs);
        Ok(Native { pieces: &pieces, binds: &binds }.load(conn)?)
    }
}

/// Enqueues many jobs in one transaction.
pub(crate) fn enqueue_many(conn: &mut SqliteConnection, jobs: usize) -> Result<()> {
    let of = |jobs| Enqueuer { pieces: pieces(jobs), jobs };
    let (whole, rest) = (of(CHUNK), of(jobs % CHUNK));
    conn.immediate_transaction(|conn| {
        for _ in 0..jobs / CHUNK {
            whole.enqueue(conn)?;
        }
        if rest.jobs > 0 {
            rest.enqueue(conn)?;
        }
        Ok(())
    })
}
