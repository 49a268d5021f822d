//! What a worker and the command line need from a database.

use std::fmt;
use std::sync::Arc;

use diesel_jobs_core::storage::{Operator, Storage};

use crate::migrations::Migrator;

/// An opened database: the verbs of workers, the verbs of operators, and the migrations of the schema.
#[derive(Clone)]
pub struct Database {
    /// The verbs of workers.
    pub storage: Arc<dyn Storage>,
    /// The verbs of operators.
    pub operator: Arc<dyn Operator>,
    /// The migrations of the schema.
    pub migrator: Arc<dyn Migrator>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.storage.name()).finish_non_exhaustive()
    }
}
