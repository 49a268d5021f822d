//! No test of the gate has a verdict that depends on the speed of the machine.

use super::file::{File, code};

/// A pause of this many milliseconds lets a clock go on, such as past the end of a lease of one millisecond. A longer
/// one does no harm, and the test is right on every machine.
const TICK: u64 = 20;
/// An assertion that comes within so many lines of code after a pause depends on it.
const NEAR: usize = 7;
/// An assertion does not have more lines than this.
const LONGEST: usize = 10;
/// How a program reads a clock.
const CLOCKS: [&str; 3] = [".elapsed()", "Instant::now()", ".duration_since("];
/// The last one is the torture suite's, whose bounds of time are given to `expect_in_time`.
const ASSERTIONS: [&str; 3] = ["assert", "ensure!(", "run.expect("];

/// Forbids bounds of elapsed time, and pauses shortly before an assertion, unless a comment on the line or above it
/// gives the reason. Programs that measure may have both.
pub(super) fn no_clocks(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| file.is_rust()).flat_map(complaints).collect()
}

/// The first line that belongs to tests of the gate, if there is one: of a test, of the torture suite, or of a module
/// with tests in another file.
fn first_line(path: &str, lines: &[&str]) -> Option<usize> {
    if path.split('/').any(|part| part == "measured" || part == "measured.rs") {
        return None;
    }
    if path.contains("test") || path.starts_with("torture/src/suite/") {
        return Some(0);
    }
    lines
        .windows(2)
        .position(|two| two[0].trim() == "#[cfg(test)]" && two[1].starts_with("mod ") && two[1].ends_with('{'))
}

fn complaints(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let codes: Vec<&str> = lines.iter().map(|line| code(line).trim()).collect();
    let has_reason = |at: usize| code(lines[at]) != lines[at] || at > 0 && lines[at - 1].trim_start().starts_with("//");
    // The variables of the function that have an elapsed time.
    let (mut times, mut found) = (Vec::new(), Vec::new());
    for at in first_line(&file.path, &lines).unwrap_or(lines.len())..lines.len() {
        let line = codes[at];
        if line.contains("fn ") {
            times.clear();
        }
        if let Some((pattern, value)) = line.strip_prefix("let ").and_then(|line| line.split_once(" = "))
            && CLOCKS.iter().any(|clock| *clock != "Instant::now()" && value.contains(clock))
        {
            times.extend(names(pattern));
        }
        let problem = if is_assertion(line) && bounds_a_time(&statement(&codes[at..]), &times) {
            "a bound of elapsed time; wait for a signal, or move it to a program named `measured`"
        } else if is_pause(line) && is_before_assertion(&codes[at + 1..]) {
            "a pause before an assertion; wait for a signal or a row"
        } else {
            continue;
        };
        if !has_reason(at) {
            found.push(format!("{}:{}: {problem}; if it must be, a comment says why", file.path, at + 1));
        }
    }
    found
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|name| !name.is_empty())
}

fn is_assertion(line: &str) -> bool {
    ASSERTIONS.iter().any(|assertion| line.contains(assertion))
}

/// The statement that begins on the first of these lines, without texts.
fn statement(lines: &[&str]) -> String {
    let mut statement = String::new();
    for line in lines.iter().take(LONGEST) {
        statement += &line.replace("\\\"", "").split('"').step_by(2).collect::<String>();
        statement += " ";
        if statement.matches('(').count() <= statement.matches(')').count() {
            break;
        }
    }
    statement
}

/// Whether it says that an elapsed time is less than something. That a time is over is true on slow machines, too.
fn bounds_a_time(statement: &str, times: &[&str]) -> bool {
    let is_time =
        |text: &str| CLOCKS.iter().any(|clock| text.contains(clock)) || names(text).any(|name| times.contains(&name));
    statement.split([',', '&', '|']).any(|clause| {
        clause.split_once(" <").is_some_and(|(left, _)| is_time(left))
            || clause.split_once(" >").is_some_and(|(_, right)| is_time(right))
    })
}

/// Whether it only sleeps. A poll of what a test waits for sleeps for no longer than a tick.
fn is_pause(line: &str) -> bool {
    let millis = line.split_once("from_millis(").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    let sleeps = line
        .split_once("sleep(")
        .is_some_and(|(path, _)| (path.is_empty() || path.ends_with("::")) && !path.contains('('));
    sleeps && line.ends_with(';') && millis.is_none_or(|millis: u64| millis > TICK)
}

fn is_before_assertion(lines: &[&str]) -> bool {
    lines.iter().filter(|line| !line.is_empty()).take(NEAR).any(|line| is_assertion(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        no_clocks(&[File { path: path.to_owned(), text: text.to_owned(), symlink: false }]).len()
    }

    #[test]
    fn bounds_of_time_are_named() {
        for (expected, text) in [
            (1, "assert!(begun.elapsed() < LIMIT);"),
            (1, "assert!(LIMIT >= begun.elapsed());"),
            (1, "assert!(Instant::now() < deadline);"),
            (1, "Err(missing) => assert!(begun.elapsed() < LIMIT, \"{missing} (\"),"),
            (1, "let took = begun.elapsed();\nassert!(took < LIMIT);"),
            (1, "let (seen, took) = (seen(), begun.elapsed().as_secs_f64());\nassert!(seen && took * 1000.0 <= 5.0);"),
            (1, "assert!(\n    begun.elapsed() < LIMIT,\n    \"it took {:?}\",\n    begun.elapsed()\n);"),
            (1, "ensure!(begun.elapsed() < START, \"it does not start\");"),
            (1, "let took = begun.elapsed();\nrun.expect(took < BAR, || late());"),
            (0, "let took = begun.elapsed();\nrun.expect_in_time(took < BAR, || late());"),
            (0, "let took = begun.elapsed();\n}\nfn other(took: usize) {\nassert!(took < 5);"),
            (0, "assert!(begun.elapsed() >= LIMIT);\nassert!(LIMIT < begun.elapsed());"),
            (0, "assert!(done < 5, \"{:?}\", begun.elapsed());"),
            (0, "assert_eq!(text, \"begun.elapsed() < LIMIT\");"),
            (0, "while begun.elapsed() < LIMIT {\nsleep(SOME).await;\n}"),
            (0, "// The limit is minutes.\nassert!(begun.elapsed() < LIMIT);"),
        ] {
            assert_eq!(count("tests/cli/suite/tail.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn pauses_before_assertions_are_named() {
        for (expected, text) in [
            (1, "sleep(SOME).await;\nassert_eq!(jobs, 0);"),
            (
                1,
                "std::thread::sleep(Duration::from_millis(21));\n\n// Now.\nlet jobs = jobs();\nlet job = 0;\nassert!(jobs == 0);",
            ),
            (0, "sleep(Duration::from_millis(20)).await;\nassert_eq!(jobs, 0);"),
            (1, "for _ in 0..2 {\nsleep(SOME).await;\n}\nassert_eq!(jobs, 0);"),
            (0, "let due = pin!(until_due(tokio::time::sleep(HOUR)));\nassert!(!is_due(due));"),
            (0, "db.await_sleep();\nassert_eq!(jobs, 0);"),
            (0, "sleep(SOME).await; // as a user would\nassert_eq!(jobs, 0);"),
            (0, "// As a user would.\nsleep(SOME).await;\nassert_eq!(jobs, 0);"),
        ] {
            assert_eq!(count("tests/cli/suite/tail.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn all_tests_of_the_gate_are_read_and_nothing_else() {
        let bound = "assert!(begun.elapsed() < LIMIT);\n";
        let of_module = format!("{bound}#[cfg(test)]\nmod tests {{\n{bound}}}\n");
        for (expected, path, text) in [
            (1, "tests/worker/suite/pickup.rs", bound),
            (1, "jobs-diesel/src/pg/search_tests.rs", bound),
            (1, "torture/src/suite/locked_row.rs", bound),
            (0, "tests/worker/measured/pickup.rs", bound),
            (0, "jobs-core/src/worker/fetcher.rs", bound),
            (1, "jobs-core/src/worker/fetcher.rs", &of_module),
        ] {
            assert_eq!(count(path, text), expected, "{path}");
        }
    }
}
