//! The rows of the application's tables, and how they differ.

use std::collections::BTreeMap;

/// A difference shows at most this many rows of each sort.
const SHOWN: usize = 3;

/// The rows of each table, as text, in order.
#[derive(Debug, Default)]
pub struct Contents(BTreeMap<String, Vec<String>>);

impl Contents {
    pub(super) fn add(&mut self, table: impl Into<String>, mut rows: Vec<String>) {
        rows.sort_unstable();
        self.0.insert(table.into(), rows);
    }

    /// The first table that differs, and how. `self` is what is expected.
    pub(super) fn difference(&self, found: &Self) -> Option<String> {
        let none = Vec::new();
        let tables = self.0.keys().chain(found.0.keys());
        let rows = |contents: &'_ Self, table: &String| contents.0.get(table).unwrap_or(&none).clone();
        tables.into_iter().find_map(|table| {
            let (expected, found) = (rows(self, table), rows(found, table));
            (expected != found).then(|| {
                let (missing, more) = (without(&expected, &found), without(&found, &expected));
                format!("{table} differs{}{}", shown("missing", &missing), shown("too many", &more))
            })
        })
    }
}

/// The rows that the other list does not have. A row that is there twice must be there twice in the other list.
fn without(rows: &[String], others: &[String]) -> Vec<String> {
    let mut left: BTreeMap<&String, usize> = BTreeMap::new();
    for other in others {
        *left.entry(other).or_default() += 1;
    }
    let mut missing = Vec::new();
    for row in rows {
        match left.get_mut(row) {
            Some(number) if *number > 0 => *number -= 1,
            _ => missing.push(row.clone()),
        }
    }
    missing
}

fn shown(what: &str, rows: &[String]) -> String {
    let lines: String = rows.iter().take(SHOWN).map(|row| format!("\n  {what}: {row}")).collect();
    match rows.len().saturating_sub(SHOWN) {
        0 => lines,
        more => format!("{lines}\n  {what}: {more} more"),
    }
}
