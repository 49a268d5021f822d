//! Every rule is tested with an input that it must refuse, and one that it must accept.

use super::*;

fn file(path: &str, text: impl Into<String>) -> File {
    File { path: path.into(), text: text.into(), symlink: false }
}

fn complaints(rule: Rule, path: &str, text: &str) -> usize {
    rule(&[file(path, text)]).len()
}

#[test]
fn a_long_file_is_named_unless_it_is_a_test() {
    let (fits, long) = ("//\n".repeat(300), "//\n".repeat(301));
    assert_eq!(complaints(short_files, "src/a.rs", &fits), 0);
    assert_eq!(complaints(short_files, "src/a.rs", &long), 1);
    assert_eq!(complaints(short_files, "tests/postgres/a.rs", &long), 0);
    assert_eq!(complaints(short_files, "src/a/tests.rs", &long), 0);
    assert_eq!(complaints(short_files, "README.md", &long), 0);
}

#[test]
fn unfinished_code_is_named() {
    for bad in [concat!("to", "do!()"), concat!("unimple", "mented!(\"x\")"), concat!("#[ig", "nore = \"slow\"]")] {
        assert_eq!(complaints(nothing_unfinished, "src/a.rs", &format!("fn f() {{\n    {bad}\n}}")), 1, "{bad}");
    }
    assert_eq!(complaints(nothing_unfinished, "src/a.rs", concat!("// never to", "do!() here")), 0);
    assert_eq!(complaints(nothing_unfinished, "src/a.rs", "#[must_use]"), 0);
}

#[test]
fn an_example_that_never_runs_is_named() {
    for bad in ["/// ```ignore", "//! ```rust,ignore", "    /// ``` ignore"] {
        assert_eq!(complaints(nothing_unfinished, "src/a.rs", bad), 1, "{bad}");
    }
    assert_eq!(complaints(nothing_unfinished, "README.md", "```rust,ignore"), 1);
    for good in ["/// ```", "/// ```no_run", "/// ```text", "/// ```compile_fail", "/// We ignore it."] {
        assert_eq!(complaints(nothing_unfinished, "src/a.rs", good), 0, "{good}");
    }
}

#[test]
fn a_path_of_one_machine_is_named() {
    for bad in [
        concat!("see /ho", "me/me/x"),
        concat!("dir = \"/ro", "ot/.cache\""),
        concat!("/wo", "rk/a"),
        concat!("`/Us", "ers/a`"),
    ] {
        assert_eq!(complaints(no_machine_paths, "docs/a.md", bad), 1, "{bad}");
    }
    for good in [concat!("$dir/wo", "rk/a"), concat!("https://example.org/ho", "me/"), "/usr/lib", "a homework"] {
        assert_eq!(complaints(no_machine_paths, "docs/a.md", good), 0, "{good}");
    }
}

#[test]
fn a_core_that_knows_a_database_is_named() {
    for bad in ["use diesel::prelude::*;", "use diesel_async::X;", "let q = \"SELECT 1\";", "run(\"delete from a\")"] {
        assert_eq!(complaints(pure_core, "jobs-core/src/a.rs", bad), 1, "{bad}");
        assert_eq!(complaints(pure_core, "jobs-diesel/src/a.rs", bad), 0, "{bad}");
    }
    for good in
        ["//! No diesel here.", "let a = 1; // as diesel does", "let s = \"update the schema\";", "let dieselish = 1;"]
    {
        assert_eq!(complaints(pure_core, "jobs-core/src/a.rs", good), 0, "{good}");
    }
}

#[test]
fn an_event_without_the_target_is_named() {
    let other = "tracing::warn!(target: \"web\", \"late\");";
    for bad in ["tracing::warn!(\"late\");", "warn!(%problem, \"late\");", "    info!(\n        id,\n    );", other] {
        assert_eq!(complaints(log_targets, "jobs-web/src/a.rs", bad), 1, "{bad}");
        assert_eq!(complaints(log_targets, "src/a.rs", bad), 1, "{bad}");
        assert_eq!(complaints(log_targets, "src/a/tests.rs", bad), 0, "{bad}");
        assert_eq!(complaints(log_targets, "torture/src/a.rs", bad), 0, "{bad}");
        let in_test = format!("fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n    {bad}\n}}");
        assert_eq!(complaints(log_targets, "src/a.rs", &in_test), 0, "{bad}");
    }
    for good in [
        "tracing::warn!(target: \"diesel_jobs\", \"late\");",
        "warn!(\n        target: \"diesel_jobs\", { id }, \"late\");",
        "compile_error!(\"no\");",
        "// warn!(\"late\")",
    ] {
        assert_eq!(complaints(log_targets, "src/a.rs", good), 0, "{good}");
    }
}

#[test]
fn a_migration_without_a_way_back_or_a_reason_is_named() {
    let up = || file("migrations/postgres/0001_a/up/01_a.sql", "-- Why.\ncreate table a ();");
    let further = file("migrations/postgres/0001_a/up/02_b.sql", "create table b ();");
    let down = || file("migrations/postgres/0001_a/down.sql", "-- Why.\ndrop table a;");
    let bare = file("migrations/postgres/0001_a/down.sql", "drop table a;");
    let readme = file("migrations/postgres/README.md", "");
    let found = migrations(&[up(), readme]);
    assert!(found.len() == 1 && found[0].starts_with("migrations/postgres/0001_a/down.sql: missing"), "{found:?}");
    assert_eq!(migrations(&[up(), bare]).len(), 1);
    assert_eq!(migrations(&[up(), down()]).len(), 0);
    assert_eq!(migrations(&[up(), further, down()]).len(), 1);
    assert_eq!(migrations(&[down()]).len(), 1);
}

#[test]
fn migrations_that_would_not_be_published_are_named() {
    let link = |target: &str| File { path: "jobs-diesel/migrations".into(), text: target.into(), symlink: true };
    assert_eq!(migrations_link(&[]).len(), 1);
    assert_eq!(migrations_link(&[link("../elsewhere")]).len(), 1);
    assert_eq!(migrations_link(&[file("jobs-diesel/migrations", "../migrations")]).len(), 1, "a file");
    assert_eq!(migrations_link(&[link("../migrations")]).len(), 0);
}

#[test]
fn a_comment_is_distinguished_from_a_string() {
    assert_eq!(code("a // b"), "a ");
    assert_eq!(code("\"http://a\" // b"), "\"http://a\" ");
    assert_eq!(code(r#""\"//" // b"#), r#""\"//" "#);
    assert_eq!(code("'\"' // b"), "'\"' ");
}
