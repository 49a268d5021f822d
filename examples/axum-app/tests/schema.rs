//! Checks that `schema.rs` and the database agree, and that neither contains anything of the jobs in `public`.

use std::collections::BTreeSet;

use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use diesel_async::RunQueryDsl;

use crate::database::Db;

const SCHEMA: &str = include_str!("../src/schema.rs");

/// The columns of all tables in `public`, except Diesel's own table.
const COLUMNS: &str = "
    select c.table_name::text as \"table\", c.column_name::text as \"column\", c.udt_name::text as kind,
           c.is_nullable = 'YES' as nullable
    from information_schema.columns c
    where c.table_schema = 'public' and c.table_name <> '__diesel_schema_migrations'";

#[derive(QueryableByName)]
struct Column {
    #[diesel(sql_type = Text)]
    table: String,
    #[diesel(sql_type = Text)]
    column: String,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Bool)]
    nullable: bool,
}

impl Column {
    /// The column as `diesel print-schema` writes it.
    fn printed(&self) -> String {
        let mut letters = self.kind.chars();
        let kind: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
        let kind = if self.nullable { format!("Nullable<{kind}>") } else { kind };
        format!("{}: {} -> {kind}", self.table, self.column)
    }
}

/// Returns each column in the file, with its table.
fn declared() -> BTreeSet<String> {
    let mut table = "";
    let mut columns = BTreeSet::new();
    for line in SCHEMA.lines().map(str::trim) {
        if let Some((name, _)) = line.strip_suffix(" {").and_then(|line| line.split_once(" (")) {
            table = name;
        } else if let Some(column) = line.strip_suffix(',').filter(|line| line.contains(" -> ")) {
            columns.insert(format!("{table}: {column}"));
        }
    }
    columns
}

#[tokio::test]
async fn schema_rs_is_the_schema_public_of_the_migrated_database() {
    let db = Db::migrated().await;
    let columns: Vec<Column> = diesel::sql_query(COLUMNS).load(&mut db.conn().await).await.unwrap();
    assert_eq!(declared(), columns.iter().map(Column::printed).collect());
}

#[test]
fn schema_rs_contains_nothing_of_the_jobs() {
    assert!(!SCHEMA.contains("jobs."), "everything of the jobs' is in a schema of its own");
}
