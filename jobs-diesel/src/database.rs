//! What a worker and the command line need of a database.

use std::fmt;
use std::sync::Arc;

use diesel_jobs_core::storage::{Operator, Storage};

use crate::migrations::Migrator;

/// A database opened for a worker: the port to run jobs, the verbs for people, the schema.
#[derive(Clone)]
pub struct Database {
    /// What the worker needs.
    pub storage: Arc<dyn Storage>,
    /// What people need.
    pub operator: Arc<dyn Operator>,
    /// The schema.
    pub migrator: Arc<dyn Migrator>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.storage.name()).finish_non_exhaustive()
    }
}
