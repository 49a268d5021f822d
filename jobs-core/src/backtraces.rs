//! Backtraces for the failures of jobs. They contain the functions from the error or panic to the handler. The
//! functions that call the handler and those that capture the backtrace are left out.

use std::backtrace::{Backtrace, BacktraceStatus};

/// The text of a backtrace. `None` if it was not captured, or contains no function of the application.
pub(crate) fn of(backtrace: &Backtrace) -> Option<String> {
    (backtrace.status() == BacktraceStatus::Captured).then(|| trimmed(&backtrace.to_string())).flatten()
}

/// The backtrace of this thread, if the environment asks for backtraces.
pub(crate) fn here() -> Option<Backtrace> {
    let backtrace = Backtrace::capture();
    (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace)
}

/// The backtrace in the text of an error: what follows a line with this word.
#[cfg(feature = "eyre")]
pub(crate) fn within(text: &str) -> Option<String> {
    let plain = without_colours(text);
    let title = plain.lines().position(|line| line.to_ascii_lowercase().contains("backtrace"))?;
    trimmed(&plain.lines().skip(title + 1).collect::<Vec<_>>().join("\n"))
}

/// Removes the sequences that set colours in a terminal.
#[cfg(feature = "eyre")]
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let begin = parts.next().unwrap_or_default().to_owned();
    parts.fold(begin, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// The functions that capture a backtrace or begin a panic.
const INNER: [&str; 14] = [
    "std::backtrace",
    "std::panicking",
    "std::sys::",
    "core::panicking",
    "core::option::",
    "core::result::",
    "core::ops::function",
    "core::convert::",
    "__rustc",
    "rust_begin_unwind",
    "anyhow::",
    "eyre::",
    "diesel_jobs_core::",
    "alloc::boxed::",
];

/// Parts of the names of functions that convert an error, for any type.
const CONVERSIONS: [&str; 2] = [" as core::convert::Into<", " as diesel_jobs_core::error::"];

/// Parts of the names of the functions that call a handler. They catch its panics.
const OUTER: [&str; 4] = ["AssertUnwindSafe", "CatchUnwind", "catch_unwind", "diesel_jobs_core::panics::caught"];

/// Leaves out the functions before and after those of the application.
fn trimmed(text: &str) -> Option<String> {
    let frames = frames(text);
    let is_inner = |frame: &&Vec<&str>| {
        name(frame).is_some_and(|name| {
            INNER.iter().any(|inner| name.starts_with(inner)) || CONVERSIONS.iter().any(|part| name.contains(part))
        })
    };
    let is_outer = |frame: &Vec<&str>| name(frame).is_some_and(|name| OUTER.iter().any(|outer| name.contains(outer)));
    let outer = frames.iter().position(is_outer).unwrap_or(frames.len());
    let own = &frames[..outer];
    let first = own.iter().take_while(is_inner).count();
    let mut lines = Vec::new();
    for (number, frame) in own[first..].iter().enumerate() {
        lines.push(format!("{number}: {}", name(frame).unwrap_or_default()));
        lines.extend(frame[1..].iter().map(|line| format!("   {}", line.trim())));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Each frame begins with a line `  7: name`, and may have a second one with its place.
fn frames(text: &str) -> Vec<Vec<&str>> {
    let mut frames: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match frames.last_mut() {
            Some(frame) if !begins_frame(line) => frame.push(line),
            _ if begins_frame(line) => frames.push(vec![line]),
            _ => {}
        }
    }
    frames
}

fn begins_frame(line: &str) -> bool {
    line.trim_start().split_once(": ").is_some_and(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name of the function. The names of methods of a trait begin with `<`.
fn name<'a>(frame: &[&'a str]) -> Option<&'a str> {
    Some(frame.first()?.split_once(": ")?.1.trim().trim_start_matches('<'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "   0: std::backtrace_rs::backtrace::trace
             at /rustc/library/std/src/backtrace.rs:1:1
   1: diesel_jobs_core::panics::install_hook::{{closure}}
   2: std::panicking::begin_panic_handler
   3: app::mail::send
             at ./src/mail.rs:12:5
   4: <app::Mail as diesel_jobs_core::handler::Handle>::handle::{{closure}}
             at ./src/mail.rs:4:1
   5: <core::panic::unwind_safe::AssertUnwindSafe<F> as core::future::future::Future>::poll
   6: tokio::runtime::task::core::poll
";

    #[test]
    fn only_the_functions_of_the_application_are_left() {
        let expected = "0: app::mail::send
   at ./src/mail.rs:12:5
1: app::Mail as diesel_jobs_core::handler::Handle>::handle::{{closure}}
   at ./src/mail.rs:4:1";
        assert_eq!(trimmed(TEXT).unwrap(), expected);
    }

    #[cfg(feature = "eyre")]
    #[test]
    fn the_backtrace_of_a_coloured_report_is_found() {
        let report = format!("no mail\n\n \u{1b}[31m━━━ BACKTRACE ━━━\u{1b}[0m\n{TEXT}");
        assert_eq!(within(&report), trimmed(TEXT));
        assert_eq!(within("no mail"), None);
    }

    #[test]
    fn the_functions_that_convert_an_error_are_left_out() {
        let text = "   0: anyhow::error::<impl core::convert::From<E> for anyhow::Error>::from
   1: <T as core::convert::Into<U>>::into
   2: <E as diesel_jobs_core::error::IntoJobError<diesel_jobs_core::error::ByAnyhow>>::into_job_error
   3: core::result::Result<T,E>::map_err
   4: <core::result::Result<T,E> as diesel_jobs_core::error::ResultExt<T,M>>::fatal
   5: <app::mail::Refused as core::convert::From<std::io::error::Error>>::from
             at ./src/mail.rs:12:5
   6: diesel_jobs_core::panics::caught
";
        let expected =
            "0: app::mail::Refused as core::convert::From<std::io::error::Error>>::from\n   at ./src/mail.rs:12:5";
        assert_eq!(trimmed(text).as_deref(), Some(expected));
    }

    #[test]
    fn a_backtrace_that_begins_after_the_handler_is_none() {
        assert_eq!(trimmed("   0: anyhow::error\n   1: diesel_jobs_core::panics::caught\n   2: tokio::run\n"), None);
        assert_eq!(trimmed("disabled backtrace"), None);
    }
}
