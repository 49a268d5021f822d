//! What some tests need besides PostgreSQL. It is fetched once, before all tests, while these compile.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::selection::includes;
use crate::browser;

// The packages whose tests use these programs.
const USES_BROWSER: &str = "jobs-web-tests";
const USES_TMUX: &str = "jobs-cli-tests";
const USES_PGBOUNCER: &str = "jobs-torture";

/// The variables that tell the tests where the tools are.
pub(super) struct Tools(Vec<(&'static str, PathBuf)>);

impl Tools {
    /// Installs what the tests that the arguments select need, and what is missing.
    pub(super) fn ensure(root: &Path, arguments: &[String]) -> Result<Self> {
        let mut variables = Vec::new();
        if includes(arguments, USES_BROWSER) {
            variables.extend(browser::variables(root)?);
        }
        // Without these two only the tests that use them fail, with messages that say why.
        if includes(arguments, USES_TMUX) {
            let _ = cluster::tmux::ensure().inspect_err(|problem| eprintln!("{problem:#}"));
        }
        if includes(arguments, USES_PGBOUNCER) {
            let program = cluster::pgbouncer::ensure(&root.join("target/pgbouncer"));
            let program = program.inspect_err(|problem| eprintln!("{problem:#}")).ok();
            variables.extend(program.map(|program| ("JOBS_TEST_PGBOUNCER", program)));
        }
        Ok(Self(variables))
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.0.iter().map(|(name, path)| (*name, &**path))
    }
}
