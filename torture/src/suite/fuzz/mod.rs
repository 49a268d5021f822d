//! Fuzz: garbled versions of what people and other programs write: arguments of jobs, cron expressions, command lines.
//!
//! Each input is accepted, or refused with an error. Nothing panics, and no error repeats arguments.

mod args;
mod commands;
mod cron;
mod garble;

use std::time::{Duration, Instant};

use anyhow::Result;

use super::fixture::Fixture;
use super::run::Run;
use garble::Garbler;

/// The time for each target.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);
/// The fuzzing stops at this number of complaints.
const ENOUGH: usize = 3;

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let time = if fixture.short { SHORT } else { LONG };
    let mut run = Run::default();
    let mut counts = Vec::new();

    let mut garbler = Garbler::new(fixture.seed, args::SEEDS, args::WORDS);
    let until = Instant::now() + time;
    let mut count = 0;
    while Instant::now() < until && run.complaints.len() < ENOUGH {
        let input = garbler.next();
        run.complaints.extend(args::complaint(&input).await);
        count += 1;
    }
    counts.push(format!("{count} arguments"));

    let mut garbler = Garbler::new(fixture.seed, cron::SEEDS, cron::WORDS);
    let until = Instant::now() + time;
    let mut count = 0;
    while Instant::now() < until && run.complaints.len() < ENOUGH {
        let input = garbler.next();
        run.complaints.extend(cron::complaint(&input));
        count += 1;
    }
    counts.push(format!("{count} schedules"));

    let mut garbler = Garbler::new(fixture.seed, commands::SEEDS, commands::WORDS);
    let until = Instant::now() + time;
    let mut count = 0;
    while Instant::now() < until && run.complaints.len() < ENOUGH {
        let input = garbler.next();
        run.complaints.extend(commands::complaint(fixture, &input).await?);
        count += 1;
    }
    counts.push(format!("{count} command lines"));
    run.load = counts.join(", ");
    Ok(run)
}
