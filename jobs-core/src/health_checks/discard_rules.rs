//! What is enqueued for discarded jobs, where the code of a live worker declares it otherwise than it is stored.

use std::collections::BTreeMap;

use super::servers::{more_differ, named};
use crate::declared_rules::DiscardRules;
use crate::discarded::DiscardRule;
use crate::record::WorkerRecord;
use crate::storage::Finding;

/// The kinds for which a live worker declares another `on_discarded` than is stored. Each is named once.
pub fn discard_rules(rules: &DiscardRules, workers: &[WorkerRecord]) -> Vec<Finding> {
    let mut differing: BTreeMap<&str, Vec<(&WorkerRecord, Option<&DiscardRule>)>> = BTreeMap::new();
    for (id, declared) in &rules.live {
        let Some(worker) = workers.iter().find(|worker| worker.id == *id) else { continue };
        for kind in worker.kinds.iter().flatten() {
            let declared = declared.iter().find(|rule| rule.kind == *kind);
            if !rules.stands(kind, declared) {
                differing.entry(kind).or_default().push((worker, declared));
            }
        }
    }
    differing.into_iter().filter_map(|(kind, others)| declared_otherwise(kind, rules, &others)).collect()
}

fn declared_otherwise(
    kind: &str,
    rules: &DiscardRules,
    others: &[(&WorkerRecord, Option<&DiscardRule>)],
) -> Option<Finding> {
    let ((worker, declared), more) = others.split_first()?;
    let stored = match rules.of(kind) {
        None => "not stored".to_owned(),
        Some(None) => "stored in a form that this program cannot read".to_owned(),
        Some(Some(rule)) => format!("stored as {}", words(rule)),
    };
    let mut declares = declared.map_or_else(|| "none".to_owned(), words);
    if stored.ends_with(&declares) {
        declares += " with other arguments, rules or `expires`";
    }
    Some(Finding::warning(
        "on_discarded_declared_otherwise",
        format!(
            "`on_discarded` of kind `{kind}` is {stored}, and the live worker {} declares {declares}{}",
            named(worker),
            more_differ(more.len())
        ),
        "end the workers of the program whose declaration should not apply: the stored one stays as long as a live worker declares it, \
         and is replaced within seconds after the last of them has ended",
    ))
}

fn words(DiscardRule { enqueues, queue, priority, max_attempts, .. }: &DiscardRule) -> String {
    format!("`{enqueues}` in queue `{queue}` with priority {priority} and {max_attempts} attempts")
}
