//! The columns of each table, and which of them fit on the screen.

use super::pane::Pane;
use crate::cli::output::width_of;

/// A name becomes as short as this before a column is left out.
const SHORTEST: usize = 12;
/// And it never gets more than this while others are cut.
const LONGEST: usize = 40;
/// Between two columns.
pub(super) const SPACING: u16 = 2;

#[derive(Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// The columns with the greatest number are left out first, and those with 0 never.
    dispensable: u8,
    /// Names and sentences can be cut. A figure that is cut looks like another figure.
    is_text: bool,
}

const fn text(title: &'static str, dispensable: u8) -> Column {
    Column { title, dispensable, is_text: true }
}

const fn figure(title: &'static str, dispensable: u8) -> Column {
    Column { title, dispensable, is_text: false }
}

const QUEUES: &[Column] = &[
    text("QUEUE", 0),
    figure("DUE", 0),
    figure("HELD", 1),
    figure("LATER", 6),
    figure("RUNNING", 2),
    figure("SLOTS", 5),
    figure("OLDEST", 0),
    figure("DONE/MIN", 0),
    figure("FAILED", 3),
    figure("WAIT P95", 4),
    text("", 0),
];
const KINDS: &[Column] = &[
    text("KIND", 0),
    text("QUEUE", 2),
    figure("WAITING", 0),
    figure("DONE/MIN", 0),
    figure("FAILED", 0),
    figure("WAIT P50", 6),
    figure("WAIT P95", 3),
    figure("RUN P50", 5),
    figure("RUN P95", 4),
];
const WORKERS: &[Column] = &[
    figure("WORKER", 3),
    text("HOST", 0),
    figure("PID", 4),
    figure("RUNNING", 0),
    text("STATE", 0),
    text("VERSION", 5),
    text("QUEUES", 0),
];
const JOBS: &[Column] =
    &[figure("JOB", 0), text("KIND", 0), text("QUEUE", 2), figure("ATTEMPT", 3), figure("SINCE", 0), text("WORKER", 1)];

/// All columns of a table.
pub(super) fn of(pane: Pane) -> &'static [Column] {
    match pane {
        Pane::Queues => QUEUES,
        Pane::Kinds => KINDS,
        Pane::Workers => WORKERS,
        Pane::Jobs => JOBS,
    }
}

/// The numbers of the columns that fit into this room, each with its width. If there is too little room for all of
/// them, names become shorter, and then columns are left out. The last one gets what remains.
pub(super) fn fitting(columns: &[Column], rows: &[Vec<String>], room: usize) -> Vec<(usize, usize)> {
    let widest = |number: usize| {
        let cells = rows.iter().filter_map(|cells| cells.get(number)).map(|cell| width_of(cell));
        cells.chain([width_of(columns[number].title)]).max().unwrap_or(0)
    };
    let least = |number: usize| if columns[number].is_text { widest(number).min(SHORTEST) } else { widest(number) };
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let free = |kept: &[usize]| {
        let spaces = usize::from(SPACING) * kept.len().saturating_sub(1);
        room.checked_sub(spaces + kept.iter().map(|number| least(*number)).sum::<usize>())
    };
    while free(&kept).is_none() {
        let first = kept.iter().copied().max_by_key(|number| columns[*number].dispensable);
        match first.filter(|number| columns[*number].dispensable > 0) {
            Some(number) => kept.retain(|kept| *kept != number),
            None => break,
        }
    }
    let mut free = free(&kept).unwrap_or(0);
    let last = kept.last().copied();
    let fits = |number: usize| {
        let wanted = if Some(number) == last { usize::MAX } else { widest(number).min(LONGEST) };
        let more = if columns[number].is_text { wanted.saturating_sub(least(number)).min(free) } else { 0 };
        free -= more;
        (number, least(number) + more)
    };
    kept.into_iter().map(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(ToString::to_string).collect()
    }

    fn titles(pane: Pane, rows: &[Vec<String>], room: usize) -> Vec<&'static str> {
        fitting(of(pane), rows, room).into_iter().map(|(number, _)| of(pane)[number].title).collect()
    }

    #[test]
    fn figures_are_whole_or_left_out_and_names_become_shorter_first() {
        let long = "a_queue_with_a_name_that_is_longer_than_all_others";
        let row =
            row(&[long, "10000+", "2500", "10000+", "120", "250", "12 min 30 s", "61500", "12.5 %", "<= 12 min", ""]);
        let rows = [row.clone()];
        for room in 20..200 {
            let fitting = fitting(QUEUES, &rows, room);
            let uncut = |(number, width): &(usize, usize)| QUEUES[*number].is_text || width_of(&row[*number]) <= *width;
            assert!(fitting.iter().all(uncut), "{room}: {fitting:?}");
            let total = fitting.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
            assert!(total <= room || fitting.len() == 5, "{room}: {fitting:?} is {total} wide");
        }
        let all: Vec<_> = QUEUES.iter().map(|column| column.title).collect();
        assert_eq!(titles(Pane::Queues, &rows, 120), all);
        let kept = ["QUEUE", "DUE", "HELD", "RUNNING", "OLDEST", "DONE/MIN", "FAILED", "WAIT P95", ""];
        assert_eq!(titles(Pane::Queues, &rows, 80), kept);
        let width = |room| fitting(QUEUES, &rows, room)[0].1;
        assert_eq!((width(80) < width(120), width(200)), (true, LONGEST));
    }

    #[test]
    fn wide_characters_count_as_two_columns() {
        let rows = [row(&["7", "発送する", "mail", "1", "2 s", "1 on a"])];
        assert_eq!(fitting(JOBS, &rows, 80)[1], (1, 8));
    }

    #[test]
    fn a_table_without_rows_has_its_titles() {
        for pane in [Pane::Queues, Pane::Kinds, Pane::Workers, Pane::Jobs] {
            assert_eq!(titles(pane, &[], 120).len(), of(pane).len());
        }
    }
}
