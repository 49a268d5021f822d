//! Jobs as a table that fits the terminal.

use std::io;

use diesel_jobs_core::{JobRecord, JobState, Registry};

use crate::cli::output::{Align, Table, printable, start_of, time};
use crate::cli::redact;

/// How wide the table is if it is not printed on a terminal.
const WIDE: usize = 160;
/// The narrowest column of arguments or errors.
const NARROW: usize = 16;

/// The jobs as a table. Arguments and errors get the rest of the terminal's width.
pub(in crate::cli) fn table(jobs: &[JobRecord]) -> String {
    let width = terminal_size::terminal_size_of(io::stdout()).map_or(WIDE, |(width, _)| width.0.into());
    of_width(jobs, &Registry::linked(), width)
}

fn of_width(jobs: &[JobRecord], registry: &Registry, width: usize) -> String {
    let has_errors = jobs.iter().any(|job| error(job).is_some());
    let arguments: Vec<String> = jobs.iter().map(|job| printable(&redact::arguments(registry, job).json)).collect();
    let of_widths = |args: usize, errors: usize| {
        let mut columns = vec![
            ("ID", Align::Right),
            ("STATE", Align::Left),
            ("AT", Align::Left),
            ("QUEUE", Align::Left),
            ("KIND", Align::Left),
            ("PRIORITY", Align::Right),
            ("ATTEMPT", Align::Right),
            ("ARGS", Align::Left),
        ];
        columns.extend(has_errors.then_some(("LAST ERROR", Align::Left)));
        let mut table = Table::new(&columns);
        for (job, arguments) in jobs.iter().zip(&arguments) {
            let cells = [
                job.id.to_string(),
                job.state.to_string(),
                time(at(job)),
                job.queue.clone(),
                job.kind.clone(),
                job.priority.to_string(),
                format!("{}/{}", job.attempt, job.max_attempts),
                start_of(arguments, args),
            ];
            let error = has_errors.then(|| start_of(&printable(error(job).unwrap_or_default()), errors));
            table.row(cells.into_iter().chain(error));
        }
        table.render()
    };
    // With columns of no width the table is as wide as the other columns and two headers.
    let headers = "ARGS".len() + if has_errors { "  LAST ERROR".len() } else { 0 };
    let others = of_widths(0, 0).lines().map(|line| line.chars().count()).max().unwrap_or(0).saturating_sub(headers);
    let rest = width.saturating_sub(others);
    if has_errors {
        let args = (rest * 2 / 5).max(NARROW);
        of_widths(args, rest.saturating_sub(args + 2).max(NARROW))
    } else {
        of_widths(rest.max(NARROW), 0)
    }
}

/// When the job ended, was claimed or is due.
fn at(job: &JobRecord) -> chrono::DateTime<chrono::Utc> {
    let claimed = job.claimed_at.filter(|_| job.state == JobState::Running);
    job.finished_at.or(claimed).unwrap_or(job.run_at)
}

/// The first line of the last error.
fn error(job: &JobRecord) -> Option<&str> {
    job.last_error.as_deref().and_then(|error| error.lines().next())
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use diesel_jobs_core::{JobId, Rules};

    use super::*;

    fn job(args: &str, last_error: Option<&str>) -> JobRecord {
        JobRecord {
            id: JobId(7),
            kind: "charge".to_owned(),
            queue: "mail".to_owned(),
            state: JobState::Retrying,
            priority: 0,
            attempt: 2,
            max_attempts: 25,
            crashes: 0,
            run_at: DateTime::UNIX_EPOCH,
            enqueued_at: DateTime::UNIX_EPOCH,
            claimed_at: None,
            finished_at: None,
            worker: None,
            tags: Vec::new(),
            args: args.to_owned(),
            last_error: last_error.map(str::to_owned),
            flags: 0,
            traceparent: None,
            rules: Rules::default(),
        }
    }

    #[test]
    fn arguments_and_errors_get_the_rest_of_the_width() {
        let args = format!(r#"{{"note":"{}"}}"#, "x".repeat(300));
        let jobs = [job(&args, Some(&format!("{}\nsecond line", "e".repeat(300)))), job("{}", None)];
        for width in [120, 160, 200] {
            let text = of_width(&jobs, &Registry::new(), width);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert_eq!(widest, width, "{text}");
            assert!(!text.contains("second") && text.contains("LAST ERROR"), "{text}");
        }
        let text = of_width(&[job("{}", None)], &Registry::new(), 120);
        assert!(!text.contains("LAST ERROR") && text.lines().nth(1).unwrap().ends_with("2/25  {}"), "{text}");
    }
}
