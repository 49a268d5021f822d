//! The printed report: table, advice, and the same as JSON.

use std::path::Path;

use diesel_jobs_storage::bench::Server;
use serde::Serialize;

use super::advice::{Circumstances, advise};
use super::numbers::{milliseconds, number, percent};
use super::ramp::{Ramp, label};
use super::shape::Shape;
use super::step::{Series, Step, millis};
use crate::cli::output::{Align, Table};

/// All results.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    pub(super) database: &'a str,
    pub(super) settings: &'a [String],
    pub(super) processors: usize,
    pub(super) slots: usize,
    pub(super) shape: Shape,
    pub(super) round_trip_ms: f64,
    pub(super) commit_ms: f64,
    /// What was left out, and why.
    pub(super) note: Option<&'a str>,
    pub(super) enqueue: &'a Series,
    pub(super) batches: &'a Series,
    pub(super) work: &'a Series,
    pub(super) advice: Vec<String>,
    pub(super) svg: String,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        server: &'a Server,
        ramp: &'a Ramp,
        about: &Circumstances,
        note: Option<&'a str>,
        svg: &Path,
    ) -> Self {
        Self {
            database: &server.name,
            settings: &server.settings,
            processors: about.processors,
            slots: about.slots,
            shape: about.shape,
            round_trip_ms: millis(about.waits.round_trip),
            commit_ms: millis(about.waits.commit),
            note,
            enqueue: &ramp.enqueue,
            batches: &ramp.batches,
            work: &ramp.work,
            advice: advise(ramp, about),
            svg: svg.display().to_string(),
        }
    }

    /// Returns the table, the advice and the path of the chart.
    pub(super) fn text(&self) -> String {
        let note = self.note.map(|note| format!("{note}\n")).unwrap_or_default();
        let advice: String = self.advice.iter().map(|line| format!("- {line}\n")).collect();
        format!("{}\n{note}\n{}\n{advice}\nchart: {}\n", self.head(), self.table(), self.svg)
    }

    /// Returns the lines above the table.
    fn head(&self) -> String {
        let settings: String = self.settings.iter().map(|setting| format!(", {setting}")).collect();
        let shape = self.shape.description().map(|text| format!("\n{text}")).unwrap_or_default();
        format!(
            "{}{settings}\nround trip {}, commit {}; {} processors here, {} jobs at once in a process{shape}",
            self.database,
            milliseconds(self.round_trip_ms),
            milliseconds(self.commit_ms),
            self.processors,
            self.slots
        )
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            ("LOAD", Align::Left),
            ("JOBS/S", Align::Right),
            ("PICK-UP P50", Align::Right),
            ("P99", Align::Right),
            ("DATABASE CPU", Align::Right),
            ("MACHINE CPU", Align::Right),
            ("", Align::Left),
        ]);
        for (series, is_work, skip) in [(self.enqueue, false, 0), (self.batches, false, 1), (self.work, true, 0)] {
            // The first step of the batches is also a step of the first series. It is printed once.
            for (at, step) in series.steps.iter().enumerate().skip(skip) {
                table.row(row(step, is_work, at == series.knee));
            }
        }
        table.render()
    }
}

fn row(step: &Step, is_work: bool, is_knee: bool) -> [String; 7] {
    let unknown = || "-".to_owned();
    let (p50, p99) = step.pickup.map_or((unknown(), unknown()), |p| (milliseconds(p.p50_ms), milliseconds(p.p99_ms)));
    [
        label(step, is_work),
        number(step.jobs_per_second),
        p50,
        p99,
        step.database_processors.map_or_else(unknown, |cores| format!("{cores:.2}")),
        step.machine_busy.map_or_else(unknown, percent),
        if is_knee { "<- enough" } else { "" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use diesel_jobs_storage::bench::Waits;

    use super::super::step::tests::steps;
    use super::*;

    #[test]
    fn each_step_is_printed_once_and_unknown_values_are_dashes() {
        let ramp = Ramp {
            enqueue: Series::new(steps(&[300.0, 580.0])),
            batches: Series::new(steps(&[300.0])),
            work: Series::new(steps(&[12_345.0])),
        };
        let settings = vec!["fsync on".to_owned(), "max_connections 100".to_owned()];
        let server =
            Server { name: "A 1".to_owned(), settings, free_connections: None, process: None, one_writer: false };
        let waits = Waits { round_trip: Duration::from_micros(50), commit: Duration::from_millis(3) };
        let about = Circumstances {
            waits,
            one_writer: false,
            processors: 4,
            slots: 16,
            not_the_workers: 3,
            optimised: true,
            shape: Shape::default(),
        };
        let text = Report::new(&server, &ramp, &about, Some("Less was tried."), Path::new("x.svg")).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "A 1, fsync on, max_connections 100");
        assert!(lines[1].starts_with("round trip 0.05 ms, commit 3.0 ms; 4 processors"), "{text}");
        assert_eq!(lines[2], "Less was tried.");
        assert!(
            lines[6].split_whitespace().eq("enqueue one by one, 2 connections 580 - - - - <- enough".split(' ')),
            "{text}"
        );
        assert!(lines[7].starts_with("work, 1 process ") && lines[7].contains("12,345"), "{text}");
        assert!(lines[9].starts_with("- One connection commits"), "{text}");
        assert_eq!(*lines.last().unwrap(), "chart: x.svg");
    }
}
