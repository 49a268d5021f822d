//! Which blocks of the pages have outputs, and that the other blocks have none.

use std::collections::BTreeSet;
use std::fs;

use crate::page::root;
use crate::support::worker;

/// The pages with outputs. A test compares each.
const COMPARED: [&str; 5] = [
    "README.md",
    "docs/guide/dashboard.md",
    "docs/guide/operating.md",
    "docs/guide/testing.md",
    "docs/guide/troubleshooting.md",
];

/// The first lines of `text` blocks that are no commands: a file's content, and two diagrams.
const OTHERS: [&str; 3] = ["diesel_jobs::worker!(my_app);", "enqueue ──▶ scheduled", "enqueue, its time comes"];

struct Block {
    page: String,
    language: String,
    lines: Vec<String>,
}

fn blocks() -> Vec<Block> {
    let guide = fs::read_dir(root().join("docs/guide")).unwrap();
    let guide = guide.map(|entry| format!("docs/guide/{}", entry.unwrap().file_name().display()));
    let pages = guide.filter(|name| name.ends_with(".md")).chain(["README.md", "RELIABILITY.md"].map(str::to_owned));
    pages.flat_map(|page| blocks_of(&page)).collect()
}

fn blocks_of(page: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    for line in fs::read_to_string(root().join(page)).unwrap().lines() {
        match (line.trim().strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block { page: page.to_owned(), language: language.to_owned(), lines: Vec::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line.trim_start().to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block does not end");
    blocks
}

#[test]
fn a_test_compares_each_page_with_outputs() {
    let blocks = blocks();
    let has_outputs = |block: &&Block| ["console", "output"].contains(&block.language.as_str());
    let pages: BTreeSet<&str> = blocks.iter().filter(has_outputs).map(|block| block.page.as_str()).collect();
    assert_eq!(pages, BTreeSet::from(COMPARED));
}

#[test]
fn blocks_of_other_languages_show_no_outputs() {
    let mut known = 0;
    for Block { page, language, lines } in blocks() {
        let is_command = |line: &String| line.starts_with("$ ");
        match language.as_str() {
            "console" => assert!(lines.first().is_some_and(is_command), "{page}: {lines:?}"),
            "output" => assert!(!lines.iter().any(is_command), "{page}: {lines:?}"),
            "text" if OTHERS.iter().any(|first| lines[0].starts_with(first)) => known += 1,
            "text" => {
                assert!(lines.iter().all(is_command), "{page}: an output belongs to a console block: {lines:?}");
                lines.iter().for_each(|line| is_known(&page, line));
            }
            "" => panic!("{page}: a block without a language: {lines:?}"),
            _ => assert!(!lines.iter().any(is_command), "{page}: commands belong to a text block: {lines:?}"),
        }
    }
    assert_eq!(known, OTHERS.len());
}

/// Asserts that the worker knows the command and the options of this line, if it is one of the worker's.
fn is_known(page: &str, line: &str) {
    let command = line.trim_start_matches("$ ").split(" #").next().unwrap().trim();
    let command = command.trim_start_matches("cargo run --bin ");
    let Some(args) = command.strip_prefix("worker") else {
        let others = ["export DATABASE_URL=", "diesel migration run"];
        assert!(others.iter().any(|other| command.starts_with(other)), "{page}: {line}");
        return;
    };
    let args = args.split_whitespace().map(|word| word.trim_matches('\''));
    let help = worker("fixture-worker").args(args.chain(["--help"])).run();
    assert_eq!(help.code, 0, "{page}: {line}: {help:?}");
}
