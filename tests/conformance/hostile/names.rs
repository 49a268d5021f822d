//! Ten thousand hostile strings, the same in every run.

use std::collections::HashSet;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const SEED: u64 = 0x6a6f_6273;
const COUNT: usize = 10_000;

/// The maximum length of a stored name, in bytes.
pub(crate) const LONGEST: usize = 200;

/// A name with two of these is too long.
const LONG: &str =
    "an unreasonably long name that goes on and on, because somebody pasted the wrong thing into the wrong field, ...";

/// Strings that are used unchanged.
const WHOLE: &[&str] = &[
    "",
    " ",
    "\0",
    "null",
    "NULL",
    "'; drop schema jobs cascade; --",
    "'; drop table jobs_job; --",
    "\"; drop schema jobs cascade; --",
    "$$; drop schema jobs cascade; $$",
    "robert'); delete from jobs.ready; --",
    "' or '1'='1",
    "' union select version(); --",
    "{a,b}",
    "{\"a\":1}",
    "\\x00",
    "%s%s%s%n",
];

/// The parts of the other strings: text that ends, escapes, comments out, formats or reverses something in some
/// language.
const PIECES: &[&str] = &[
    "'",
    "''",
    "\"",
    "`",
    ";",
    "--",
    "/*",
    "*/",
    "#",
    "\\",
    "\\\\",
    "\\'",
    "\0",
    "\n",
    "\r\n",
    "\t",
    "\u{8}",
    "\u{1b}[2J",
    "\u{7f}",
    "\u{85}",
    "\u{9b}31m",
    "$$",
    "$a$",
    "$1",
    "$2",
    "?",
    "?1",
    ":a",
    "@a",
    "%",
    "%s",
    "%n",
    "%00",
    "_",
    "*",
    "{",
    "}",
    "{}",
    "{0}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    "..",
    "/",
    "|",
    "&",
    "&&",
    "<",
    ">",
    "=",
    "!",
    "~",
    "^",
    " ",
    "\u{a0}",
    "\u{200b}",
    "\u{202e}",
    "\u{feff}",
    "\u{fffd}",
    "\u{10ffff}",
    "e\u{301}",
    "ß",
    "İ",
    "名前",
    "🦀",
    "👩‍👩‍👧",
    "jobs",
    "jobs.ready",
    "jobs_job",
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "nan",
    "0x",
    "E'\\047'",
    "U&'\\0027'",
    "chr(39)",
    " or 1=1",
    "; drop schema jobs cascade",
    "; drop table jobs_job",
    "; delete from jobs.running",
    "; update jobs_job set state = 'completed'",
    "; truncate jobs.ready",
    "; copy jobs.ready to program 'true'",
    "; select pg_sleep(60)",
    "; attach 'x' as y",
    "; pragma writable_schema = 1",
    "; commit",
    "; rollback",
    "; listen jobs",
    "; notify jobs",
    "; set role postgres",
    "; reset all",
    "\\copy",
    "\\!",
    "load_extension('x')",
    LONG,
];

/// Returns all of them, without duplicates.
pub(crate) fn names() -> Vec<String> {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut seen = HashSet::new();
    let mut names: Vec<String> = WHOLE.iter().map(|name| (*name).to_owned()).collect();
    names.extend([LONGEST - 1, LONGEST, LONGEST + 1, 8000, 100_000].map(|length| "'".repeat(length)));
    names.push("é".repeat(LONGEST / 2 + 1));
    seen.extend(names.iter().cloned());
    while names.len() < COUNT {
        let pieces = random.random_range(1..=7);
        let name: String = (0..pieces).map(|_| PIECES[random.random_range(0..PIECES.len())]).collect();
        if seen.insert(name.clone()) {
            names.push(name);
        }
    }
    names
}

/// Whether a kind, a queue and a tag may have this name. No queue has a name with a `*`, which is for patterns.
pub(crate) fn is_storable(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST && !name.contains(['\0', '*'])
}
