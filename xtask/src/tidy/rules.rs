//! The rules. Each is a pure function from files to complaints. Each has a test with an input that breaks it.
//!
//! The searched words are written in parts here, so that this file does not break its own rules.

use super::circles::circles;
use super::clocks::no_clocks;
use super::enums::open_enums;
use super::file::{File, code};
use super::links::no_dead_links;
use super::root::small_root;
use super::widths::comments_fit;

type Rule = fn(&[File]) -> Vec<String>;

pub(super) const ALL: &[Rule] = &[
    short_files,
    nothing_unfinished,
    no_machine_paths,
    pure_core,
    log_targets,
    migrations,
    migrations_link,
    circles,
    no_clocks,
    no_dead_links,
    comments_fit,
    small_root,
    open_enums,
];

const LONGEST: usize = 300;

/// A file of more than [`LONGEST`] lines does more than one thing.
fn short_files(files: &[File]) -> Vec<String> {
    let too_long = |file: &&File| file.is_rust() && !file.is_test() && file.text.lines().count() > LONGEST;
    let complain = |file: &File| format!("{}: longer than {LONGEST} lines; find the second thing inside it", file.path);
    files.iter().filter(too_long).map(complain).collect()
}

/// Forbids code that panics because it is not written yet, and tests and examples that never run.
fn nothing_unfinished(files: &[File]) -> Vec<String> {
    let marks = [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("#[ig", "nore")];
    files
        .iter()
        .filter(|file| file.is_rust() || file.is_markdown())
        .flat_map(|file| {
            file.complain(|line| {
                if skipped_example(line) {
                    return Some("an example that never runs; make it compile, or mark it `text`".into());
                }
                let mark = marks.iter().find(|mark| file.is_rust() && code(line).contains(**mark))?;
                Some(format!("`{mark}` is unfinished work; finish it or leave it out"))
            })
        })
        .collect()
}

/// Whether the line opens a code block that rustdoc skips.
fn skipped_example(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    line.strip_prefix("```").is_some_and(|info| info.split([',', ' ', '{', '}']).any(|word| word.trim() == "ignore"))
}

/// Forbids absolute paths that exist on one machine only.
fn no_machine_paths(files: &[File]) -> Vec<String> {
    let roots = [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
    let within_a_longer_path = |c: char| c.is_alphanumeric() || "._-~*)}>]".contains(c);
    files
        .iter()
        .flat_map(|file| {
            file.complain(|line| {
                let found = roots.iter().find(|root| {
                    line.match_indices(**root).any(|(at, _)| !line[..at].ends_with(within_a_longer_path))
                })?;
                Some(format!("an absolute path under {found}; name it relative to the workspace"))
            })
        })
        .collect()
}

/// Whether this is the name of a Diesel crate, or of a crate of ours that depends on Diesel.
fn is_diesels(name: &str) -> bool {
    name == "diesel_jobs_storage" || name.starts_with("diesel_") && !name.starts_with("diesel_jobs")
}

/// The types of columns must implement Diesel's traits in their own crate.
const COLUMNS_OF_THE_CORE: [&str; 2] = ["jobs-core/src/enqueued.rs", "jobs-core/src/job_id.rs"];

/// Forbids Diesel and SQL in the core.
fn pure_core(files: &[File]) -> Vec<String> {
    // In lower case only words with which no sentence starts.
    const SQL: &[&str] = &["\"SELECT ", "\"INSERT ", "\"UPDATE ", "\"DELETE ", "\"insert into ", "\"delete from "];
    files
        .iter()
        .filter(|file| file.path.starts_with("jobs-core/src/") && file.is_rust())
        .filter(|file| !COLUMNS_OF_THE_CORE.contains(&&*file.path))
        .flat_map(|file| {
            file.complain(|line| {
                let code = code(line);
                let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
                if words.any(|word| word.eq_ignore_ascii_case("diesel") || is_diesels(word)) {
                    return Some(
                        "the core names Diesel; put this into jobs-diesel, behind the storage interface".into(),
                    );
                }
                let sql = SQL.iter().find(|sql| code.contains(**sql))?;
                Some(format!("the core holds SQL ({}..); put it into jobs-diesel", sql.trim()))
            })
        })
        .collect()
}

/// The crates whose events users see in their logs.
const LOGGING_CRATES: [&str; 4] = ["src/", "jobs-core/src/", "jobs-diesel/src/", "jobs-web/src/"];

/// Requires that all events have one target, so that one directive of a log filter finds them all.
fn log_targets(files: &[File]) -> Vec<String> {
    const EVENTS: [&str; 5] = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];
    const TARGET: &str = "target: \"diesel_jobs\"";
    let of_event = |line: &str| {
        EVENTS.iter().find_map(|event| {
            let mut starts = line.match_indices(event).map(|(at, _)| at);
            let at = starts.find(|at| !line[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))?;
            Some(at + event.len())
        })
    };
    let logs = |file: &&File| {
        file.is_rust() && !file.is_test() && LOGGING_CRATES.iter().any(|root| file.path.starts_with(root))
    };
    let check = |file: &File| {
        // Tests inside the file are at its end.
        let product = file.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<&str> = product.lines().map(code).collect();
        let has_no_target = |at: &usize| {
            of_event(lines[*at]).is_some_and(|start| {
                let arguments = lines[*at][start..].trim();
                let first =
                    if arguments.is_empty() { lines.get(at + 1).map_or("", |next| next.trim()) } else { arguments };
                !first.starts_with(TARGET)
            })
        };
        let complain = |at| format!("{}:{}: an event without `{TARGET}` as its first argument", file.path, at + 1);
        (0..lines.len()).filter(has_no_target).map(complain).collect::<Vec<_>>()
    };
    files.iter().filter(logs).flat_map(check).collect()
}

/// Every migration has files in `up` and a `down.sql`. Each starts with a comment that states the reason.
fn migrations(files: &[File]) -> Vec<String> {
    let parts = files.iter().filter_map(|file| {
        let [_, _, rest] = file.path.strip_prefix("migrations/")?.splitn(3, '/').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((&file.path[..file.path.len() - rest.len()], rest, file))
    });
    let mut dirs: Vec<&str> = parts.clone().map(|(dir, _, _)| dir).collect();
    dirs.sort_unstable();
    dirs.dedup();
    let missing = dirs.iter().flat_map(|dir| {
        let has = |way: &str| parts.clone().any(|(of, rest, _)| of == *dir && rest.starts_with(way));
        let complain = |way: &&str| format!("{dir}{way}: missing; every migration has files in `up` and a down.sql");
        ["up/", "down.sql"].iter().filter(|way| !has(way)).map(complain).collect::<Vec<_>>()
    });
    let bare = parts
        .clone()
        .filter(|(_, _, file)| !file.text.starts_with("--"))
        .map(|(_, _, file)| format!("{}: no header comment; say why it is there and which locks it takes", file.path));
    missing.chain(bare).collect()
}

/// Requires that the migrations are a symlink in the published crate: cargo packages only files in the crate's
/// directory, and follows links.
fn migrations_link(files: &[File]) -> Vec<String> {
    const LINK: (&str, &str) = ("jobs-diesel/migrations", "../migrations");
    let right = |file: &File| file.symlink && (file.path.as_str(), file.text.trim_end_matches('/')) == LINK;
    if files.iter().any(right) {
        return Vec::new();
    }
    vec![format!("{}: not a symlink to {1}; make it with: ln -s {1} {0}", LINK.0, LINK.1)]
}

#[cfg(test)]
mod tests;
