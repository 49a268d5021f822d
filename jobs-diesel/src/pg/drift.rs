//! Compares the schema with the one that a migration makes. The expected objects are in `expected_schema.jsonl`, which
//! a test compares with a fresh migration.

use std::collections::BTreeMap;

use diesel_jobs_core::storage::Finding;

use super::queries::doctor::schema_objects::SchemaObject;

/// The objects of the schema, one per line. After a change of the migrations run the test below with
/// `UPDATE_EXPECTED=1`.
const EXPECTED: &str = include_str!("expected_schema.jsonl");

/// The objects that are missing, different or not ours.
pub(super) fn drift(found: &[SchemaObject]) -> Vec<Finding> {
    differences(&expected(), found)
}

fn expected() -> Vec<SchemaObject> {
    // The test below reads every line.
    EXPECTED.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn differences(expected: &[SchemaObject], found: &[SchemaObject]) -> Vec<Finding> {
    let by_name = |objects: &[SchemaObject]| -> BTreeMap<(String, String), SchemaObject> {
        objects.iter().map(|one| ((one.kind.clone(), one.name.clone()), one.clone())).collect()
    };
    let (expected, found) = (by_name(expected), by_name(found));
    let mut findings = Vec::new();
    for (key, SchemaObject { kind, name, definition, removal }) in &expected {
        match found.get(key) {
            None => findings.push(Finding::error("drift", format!("the {kind} {name} is missing"), definition)),
            Some(other) if words(&other.definition) != words(definition) => {
                let repair = match kind.as_str() {
                    "column" => format!("make it as the migration does: {definition}"),
                    "function" => definition.clone(),
                    _ => format!("{removal}; {definition}"),
                };
                findings.push(Finding::error(
                    "drift",
                    format!("the {kind} {name} was changed: {}", other.definition),
                    repair,
                ));
            }
            Some(_) => {}
        }
    }
    for (key, SchemaObject { kind, name, removal, .. }) in &found {
        if !expected.contains_key(key) {
            let what = format!("the {kind} {name} is not made by the migrations of this version");
            findings.push(Finding::warning("drift", what, removal));
        }
    }
    findings
}

/// Servers of different versions break lines differently.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};

    use super::*;
    use crate::pg::queries::doctor::schema_objects::schema_objects;

    #[tokio::test]
    async fn the_expected_schema_is_that_of_a_fresh_migration() {
        let url = std::env::var("JOBS_TEST_DATABASE_URL").expect("JOBS_TEST_DATABASE_URL: run `cargo xtask test`");
        let mut conn = AsyncPgConnection::establish(&url).await.unwrap();
        conn.begin_test_transaction().await.unwrap();
        crate::migrate(&mut conn).await.unwrap();
        // They change how the server writes definitions.
        let settings = "set search_path = jobs, public; set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard'; \
            set quote_all_identifiers = on; set timezone = 'Asia/Tokyo'; set extra_float_digits = -3; set bytea_output = 'escape'";
        conn.batch_execute(settings).await.unwrap();
        let found = schema_objects(&mut conn).await.unwrap();
        let lines: String = found.iter().map(|one| serde_json::to_string(one).unwrap() + "\n").collect();
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/pg/expected_schema.jsonl"), &lines).unwrap();
            return;
        }
        assert_eq!(expected().len(), EXPECTED.lines().count(), "a line cannot be read");
        let drift = drift(&found);
        assert!(drift.is_empty(), "run this test with UPDATE_EXPECTED=1 after a change of the migrations: {drift:#?}");
    }

    #[test]
    fn what_is_missing_changed_or_added_is_found_with_its_repair() {
        let one = |name: &str, definition: &str| SchemaObject {
            kind: "index".to_owned(),
            name: name.to_owned(),
            definition: definition.to_owned(),
            removal: format!("drop {name}"),
        };
        let expected = [one("a", "create a"), one("b", "create b"), one("c", "create\n c")];
        let found = [one("b", "create b2"), one("c", "create c"), one("d", "create d")];
        let repairs: Vec<String> = differences(&expected, &found).into_iter().map(|finding| finding.repair).collect();
        assert_eq!(repairs, ["create a", "drop b; create b", "drop d"]);
    }
}
