//! Stores what the code of a program declares. Each declaration is its own transaction: one that the database refuses
//! holds up no other. If the file is locked, none can be stored.

use diesel_jobs_core::storage::{DeclaredRules, DeclaredSchedule, StorageResult};
use diesel_jobs_core::{DiscardRule, StorageError};

use super::queries::{on_discarded, schedule};
use super::storage::SqliteStorage;

impl SqliteStorage {
    /// Returns those that were refused.
    pub(super) async fn declare_schedules(
        &self,
        declared: Vec<DeclaredSchedule>,
    ) -> StorageResult<Vec<(String, StorageError)>> {
        let mut refused = Vec::new();
        for one in self.reader.read(move |conn| schedule::to_declare(conn, declared)).await? {
            let name = one.name.clone();
            match self.writer.write(move |conn| schedule::declare(conn, &one)).await {
                Err(problem) if !problem.is_transient() => refused.push((name, problem)),
                done => done?,
            }
        }
        Ok(refused)
    }

    pub(super) async fn declare_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<DeclaredRules> {
        let stored = self.reader.read(on_discarded::rules).await?;
        let mut declared = DeclaredRules::default();
        for kind in kinds {
            let rule = rules.iter().find(|rule| rule.kind == *kind);
            if stored.stands(kind, rule) {
                continue;
            }
            if stored.is_kept(kind) {
                declared.is_behind = true;
                continue;
            }
            let (of, rule) = (kind.clone(), rule.cloned());
            match self.writer.write(move |conn| on_discarded::declare(conn, &of, rule.as_ref())).await {
                Err(problem) if !problem.is_transient() => declared.refused.push((kind.clone(), problem)),
                stands => declared.is_behind |= !stands?,
            }
        }
        Ok(declared)
    }
}
