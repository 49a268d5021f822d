//! Stores what the code of a program declares. Each declaration is its own transaction: one that the database refuses,
//! or that waits for a lock, holds up no other.

use diesel_jobs_core::storage::{DeclaredRules, DeclaredSchedule, StorageResult};
use diesel_jobs_core::{DiscardRule, StorageError};

use super::queries::{declare_discard_rules, schedule};
use super::{PgStorage, run};

impl PgStorage {
    /// Returns whether another session has locked the row of one, and those that were refused.
    pub(super) async fn declare_schedules(
        &self,
        declared: &[DeclaredSchedule],
    ) -> StorageResult<(bool, Vec<(String, StorageError)>)> {
        let wanted = run!(self, "declare_schedules", conn => schedule::to_declare(conn, declared))?;
        let (mut is_locked, mut refused) = (false, Vec::new());
        for one in wanted {
            match self.declare_schedule(&one).await {
                Err(problem) if !problem.is_transient() => refused.push((one.name, problem)),
                is_stored => is_locked |= !is_stored?,
            }
        }
        Ok((is_locked, refused))
    }

    async fn declare_schedule(&self, one: &DeclaredSchedule) -> StorageResult<bool> {
        run!(self, "declare_schedules", conn => schedule::declare(conn, &self.patience, one))
    }

    pub(super) async fn declare_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<DeclaredRules> {
        // What live workers declare is read only if it matters, because this is repeated all the time.
        let stored = run!(self, "declare_discard_rules", conn => declare_discard_rules::stored_rules(conn))?;
        let of = |kind: &str| rules.iter().find(|rule| rule.kind == kind);
        let mut declared = DeclaredRules::default();
        let differs = |kind: &&String| !stored.stands(kind, of(kind));
        let differing: Vec<&String> = kinds.iter().filter(differs).collect();
        if differing.is_empty() {
            return Ok(declared);
        }
        let stored = run!(self, "declare_discard_rules", conn => declare_discard_rules::rules(conn))?;
        for kind in differing {
            let is_kept = stored.is_kept(kind);
            match if is_kept { Ok(false) } else { self.declare_rule(kind, of(kind)).await } {
                Err(problem) if !problem.is_transient() => declared.refused.push((kind.clone(), problem)),
                stands => declared.is_behind |= !stands?,
            }
        }
        Ok(declared)
    }

    async fn declare_rule(&self, kind: &str, rule: Option<&DiscardRule>) -> StorageResult<bool> {
        run!(self, "declare_discard_rules", conn => declare_discard_rules::declare(conn, &self.patience, kind, rule))
    }
}
