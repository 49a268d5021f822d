//! Jobs as a table that fits the terminal.

use std::io;

use diesel_jobs_core::{JobRecord, JobState, Registry};

use crate::cli::output::{Align, Table, printable, start_of, time, width_of};
use crate::cli::redact;

/// How wide the table is if it is not printed on a terminal.
const WIDE: usize = 160;
/// The narrowest column of arguments or errors.
const NARROW: usize = 16;
/// How much of a name is shown if the terminal is too narrow for whole names.
const NAME: usize = 20;
/// The columns that are left out if the terminal is too narrow, the first one first.
const LEFT_OUT: [&str; 6] = ["PRIORITY", "ATTEMPT", "ARGS", "AT", "QUEUE", "LAST ERROR"];
/// The space between two columns.
const GAP: usize = 2;

/// The jobs as a table. Arguments and errors get the rest of the terminal's width. On a narrow terminal, names are cut
/// and columns are left out. What is not printed on a terminal has all columns and whole names.
pub(in crate::cli) fn table(jobs: &[JobRecord]) -> String {
    let registry = Registry::linked();
    match terminal_size::terminal_size_of(io::stdout()) {
        Some((width, _)) => of_columns(fitting(columns(jobs, &registry), width.0.into()), width.0.into()),
        None => of_columns(columns(jobs, &registry), WIDE),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// It is shown as it is, or not at all.
    Whole,
    /// Its end may be cut off.
    Name,
    /// It gets the rest of the width.
    Text,
}

struct Column {
    title: &'static str,
    align: Align,
    sort: Sort,
    cells: Vec<String>,
}

impl Column {
    /// How wide its widest cell is.
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| width_of(cell)).max().unwrap_or(0).max(self.title.len())
    }

    /// How wide it is at least.
    fn least(&self) -> usize {
        if self.sort == Sort::Text { self.width().min(NARROW) } else { self.width() }
    }

    fn cut(&mut self, most: usize) {
        self.cells.iter_mut().for_each(|cell| *cell = start_of(cell, most));
    }
}

fn columns(jobs: &[JobRecord], registry: &Registry) -> Vec<Column> {
    let column = |title, align, sort, cell: &dyn Fn(&JobRecord) -> String| Column {
        title,
        align,
        sort,
        cells: jobs.iter().map(|job| printable(&cell(job))).collect(),
    };
    let mut columns = vec![
        column("ID", Align::Right, Sort::Whole, &|job| job.id.to_string()),
        column("STATE", Align::Left, Sort::Whole, &|job| job.state.to_string()),
        column("AT", Align::Left, Sort::Whole, &|job| time(at(job))),
        column("QUEUE", Align::Left, Sort::Name, &|job| job.queue.clone()),
        column("KIND", Align::Left, Sort::Name, &|job| job.kind.clone()),
        column("PRIORITY", Align::Right, Sort::Whole, &|job| job.priority.to_string()),
        column("ATTEMPT", Align::Right, Sort::Whole, &|job| format!("{}/{}", job.attempt, job.max_attempts)),
        column("ARGS", Align::Left, Sort::Text, &|job| redact::arguments(registry, job).json),
    ];
    if jobs.iter().any(|job| error(job).is_some()) {
        let error = |job: &JobRecord| error(job).unwrap_or_default().to_owned();
        columns.push(column("LAST ERROR", Align::Left, Sort::Text, &error));
    }
    columns
}

/// The columns that fit into a terminal of this width. First names are cut. If that is not enough, the columns that
/// matter least are left out, and at last the kind is cut again.
fn fitting(mut columns: Vec<Column>, width: usize) -> Vec<Column> {
    let missing = |columns: &[Column]| {
        let least: usize = columns.iter().map(|column| column.least() + GAP).sum();
        least.saturating_sub(width + GAP)
    };
    if missing(&columns) == 0 {
        return columns;
    }
    let cut = |columns: &mut [Column], most: &dyn Fn(&Column) -> usize| {
        columns.iter_mut().filter(|column| column.sort == Sort::Name).for_each(|column| column.cut(most(column)));
    };
    cut(&mut columns, &|_| NAME);
    for title in LEFT_OUT {
        if missing(&columns) == 0 {
            break;
        }
        columns.retain(|column| column.title != title);
    }
    let missing = missing(&columns);
    cut(&mut columns, &|column| column.width().saturating_sub(missing).max(column.title.len()));
    columns
}

/// The table. Arguments and errors share what the other columns leave of the width.
fn of_columns(mut columns: Vec<Column>, width: usize) -> String {
    let others = columns.iter().filter(|column| column.sort != Sort::Text).map(|column| column.width() + GAP);
    let mut rest = width.saturating_sub(others.sum());
    let mut texts = columns.iter().filter(|column| column.sort == Sort::Text).count();
    for column in columns.iter_mut().filter(|column| column.sort == Sort::Text) {
        let most = if texts > 1 { rest * 2 / 5 } else { rest }.max(NARROW);
        column.cut(most);
        rest = rest.saturating_sub(most + GAP);
        texts -= 1;
    }
    let heads: Vec<(&str, Align)> = columns.iter().map(|column| (column.title, column.align)).collect();
    let mut table = Table::new(&heads);
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        table.row(columns.iter_mut().map(|column| std::mem::take(&mut column.cells[row])));
    }
    table.render()
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

    fn widest(text: &str) -> usize {
        text.lines().map(width_of).max().unwrap()
    }

    #[test]
    fn names_are_cut_and_columns_are_left_out_on_a_narrow_terminal() {
        let long = JobRecord {
            kind: "import_of_the_catalogue_of_a_supplier".to_owned(),
            queue: "仕入先のカタログを取り込む行列".to_owned(),
            ..job("{\"supplier\":\"日本語日本語日本語\"}", Some("the supplier does not answer: no answer within 30 s"))
        };
        let jobs = [long, job("{}", None)];
        for width in 20..=200 {
            let text = of_columns(fitting(columns(&jobs, &Registry::new()), width), width);
            assert!(widest(&text) <= width, "{width}: {text}");
            assert!(text.starts_with("ID  STATE"), "{width}: {text}");
        }
        let of = |width| of_columns(fitting(columns(&jobs, &Registry::new()), width), width);
        let narrow = of(80);
        assert!(narrow.contains("import_of_the_cata..") && narrow.contains("仕入先のカタログを.."), "{narrow}");
        assert!(
            narrow.contains("LAST ERROR") && !narrow.contains("PRIORITY") && !narrow.contains("ATTEMPT"),
            "{narrow}"
        );
        assert!(of(135).contains("PRIORITY") && of(135).contains("import_of_the_cata.."), "{}", of(135));
        // What is not printed on a terminal is whole.
        let piped = of_columns(columns(&jobs, &Registry::new()), WIDE);
        assert!(
            piped.contains(&jobs[0].kind) && piped.contains(&jobs[0].queue) && piped.contains("PRIORITY"),
            "{piped}"
        );
    }

    #[test]
    fn arguments_and_errors_get_the_rest_of_the_width() {
        let args = format!(r#"{{"note":"{}"}}"#, "x".repeat(300));
        let jobs = [job(&args, Some(&format!("{}\nsecond line", "e".repeat(300)))), job("{}", None)];
        for width in [120, 160, 200] {
            let text = of_columns(fitting(columns(&jobs, &Registry::new()), width), width);
            assert_eq!(widest(&text), width, "{text}");
            assert!(!text.contains("second") && text.contains("LAST ERROR"), "{text}");
        }
        let text = of_columns(columns(&[job("{}", None)], &Registry::new()), 120);
        assert!(!text.contains("LAST ERROR") && text.lines().nth(1).unwrap().ends_with("2/25  {}"), "{text}");
    }
}
