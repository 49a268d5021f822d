//! Turns the figures into advice for the deployment. Pure: it reads figures and returns sentences.

use diesel_jobs_storage::bench::Waits;

use super::numbers::{milliseconds, number, percent};
use super::ramp::Ramp;
use super::shape::Shape;
use super::step::{Series, Step, millis};

/// From this share of busy processors on, the processors are reported as the limit.
const BUSY: f64 = 0.85;

/// If the rate with more processes falls below this share of the best rate, the claims are reported as the limit.
const CONTENTION: f64 = 0.8;

/// If a commit takes more than this many round trips, it waits longer for the disk than for the network.
const DISK: f64 = 2.0;

/// Durations of jobs, in ms, for which the advice states the slots.
const EXAMPLES_MS: [f64; 3] = [10.0, 100.0, 1_000.0];

/// What the advice needs besides the steps.
pub(super) struct Circumstances {
    pub(super) waits: Waits,
    pub(super) one_writer: bool,
    pub(super) processors: usize,
    pub(super) slots: usize,
    /// The connections that the test itself has open during a step of work, without those of the workers.
    pub(super) not_the_workers: usize,
    /// Whether this program was built with optimisation.
    pub(super) optimised: bool,
    /// The shape of each job.
    pub(super) shape: Shape,
}

/// Returns the sentences, in the order in which they are printed.
pub(super) fn advise(ramp: &Ramp, about: &Circumstances) -> Vec<String> {
    [
        (!about.optimised)
            .then(|| "This program was built without optimisation: with --release its workers do more.".to_owned()),
        commits(ramp, about),
        pool(&ramp.enqueue).filter(|_| !about.one_writer),
        batches(&ramp.batches),
        processes(&ramp.work),
        slots(&ramp.work, about),
        connections(&ramp.work, about),
        limit(&ramp.work, about),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn commits(ramp: &Ramp, about: &Circumstances) -> Option<String> {
    let alone = ramp.enqueue.steps.first()?;
    let (commit, trip) = (millis(about.waits.commit), millis(about.waits.round_trip));
    let place = if commit > trip * DISK { "the disk" } else { "the way to the database and back" };
    // SQLite has one writer at a time, so connections cannot share a commit.
    let shared = if about.one_writer { "" } else { "Connections that commit at the same time share the wait; " };
    Some(format!(
        "One connection commits {} times a second and enqueues {} jobs one by one: a commit takes {}, most of it for {place}. \
         {shared}a batch pays it once.",
        number(1e3 / commit.max(1e-3)),
        number(alone.jobs_per_second),
        milliseconds(commit)
    ))
}

fn pool(series: &Series) -> Option<String> {
    let Step { connections, jobs_per_second, .. } = series.at_knee()?;
    let (these, rate) = (noun(*connections, "connection", "connections"), number(*jobs_per_second));
    let more = if series.flat { "bring nothing" } else { "were not tried (--connections, --time)" };
    Some(format!("Pool size: {these} for {rate} jobs/s one by one; more {more}."))
}

fn batches(series: &Series) -> Option<String> {
    let (one, knee) = (series.steps.first()?, series.at_knee()?);
    let gain = knee.jobs_per_second / one.jobs_per_second.max(1.0);
    (knee.batch > 1).then(|| {
        format!(
            "Batches: `enqueue_all` with {} jobs brings {} jobs/s through one connection, {gain:.0} times one by one.",
            knee.batch,
            number(knee.jobs_per_second)
        )
    })
}

fn processes(series: &Series) -> Option<String> {
    let Step { processes, jobs_per_second, .. } = series.at_knee()?;
    let (these, rate) = (noun(*processes, "process", "processes"), number(*jobs_per_second));
    let more = if series.flat { "bring nothing" } else { "were not tried (--processes, --time)" };
    Some(format!("Workers: {these} for {rate} jobs/s, worked off while they come in; more {more}."))
}

/// States the slots by Little's law: the jobs that run at once are the rate times the duration of each job.
fn slots(series: &Series, about: &Circumstances) -> Option<String> {
    let knee = series.at_knee()?;
    let each = knee.jobs_per_second / knee.processes as f64;
    let examples: Vec<String> = EXAMPLES_MS
        .iter()
        .map(|ms| format!("{} at once if they take {ms:.0} ms", number((each * ms / 1e3).ceil().max(1.0))))
        .collect();
    Some(format!(
        "Slots: these jobs do nothing, and each process ran {} of them a second. For as many of yours it needs {}. At \
         --slots {}, jobs longer than {} are the limit and not the database.",
        number(each),
        examples.join(", "),
        about.slots,
        milliseconds(about.slots as f64 * 1e3 / each.max(1.0))
    ))
}

fn connections(series: &Series, about: &Circumstances) -> Option<String> {
    let knee = series.at_knee()?;
    let workers = knee.database_connections?.saturating_sub(about.not_the_workers);
    Some(format!(
        "Connections: at that rate the workers held {workers}, {:.0} for each process. Add one for each transactional \
         handler that runs at once (--connections of `run`), and the web application's pool.",
        workers as f64 / knee.processes as f64
    ))
}

fn limit(series: &Series, about: &Circumstances) -> Option<String> {
    let best = series.steps.iter().max_by(|a, b| a.jobs_per_second.total_cmp(&b.jobs_per_second))?;
    let last = series.steps.last()?;
    let all = about.processors;
    let text = match (best.machine_busy, best.database_processors) {
        (Some(busy), _) if busy >= BUSY && about.one_writer => format!(
            "the processors of this machine, {} busy. SQLite stays on one machine; PostgreSQL can be shared.",
            percent(busy)
        ),
        (Some(busy), Some(database)) if busy >= BUSY => format!(
            "the processors. {} of this machine's {all} were busy, {database:.1} of them with the database, the rest with \
             the workers, this test and whatever else runs here: a database on a machine of its own has more.",
            percent(busy)
        ),
        (Some(busy), None) if busy >= BUSY => {
            format!("the processors of this machine, {} busy: run workers on more machines.", percent(busy))
        }
        _ if about.one_writer => "SQLite, which allows one writer at a time; PostgreSQL allows many.".to_owned(),
        _ if last.jobs_per_second < best.jobs_per_second * CONTENTION => format!(
            "the claims, which get into each other's way: {} did {} jobs/s, {} only {}. Fewer processes with a higher \
             --slots do more.",
            noun(best.processes, "process", "processes"),
            number(best.jobs_per_second),
            last.processes,
            number(last.jobs_per_second)
        ),
        _ if !series.flat => "nothing that was reached; the rate still grew at the end.".to_owned(),
        (_, Some(database)) if database >= BUSY * all as f64 => "the database's processors.".to_owned(),
        _ if millis(about.waits.commit) > millis(about.waits.round_trip) * DISK => format!(
            "the wait for the disk, {} for each commit; processors are free. Faster storage helps.",
            milliseconds(millis(about.waits.commit))
        ),
        (_, None) => {
            "the database or the way to it: this machine's processors are free, the database's cannot be seen."
                .to_owned()
        }
        _ => "the way to the database and back; processors are free.".to_owned(),
    };
    Some(format!("What limits: {text}"))
}

fn noun(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::step::tests::steps;
    use super::*;

    fn about() -> Circumstances {
        let waits = Waits { round_trip: Duration::from_micros(100), commit: Duration::from_millis(4) };
        Circumstances {
            waits,
            one_writer: false,
            processors: 2,
            slots: 16,
            not_the_workers: 4,
            optimised: true,
            shape: Shape::default(),
        }
    }

    fn ramp(enqueue: &[f64], work: Vec<Step>) -> Ramp {
        Ramp { enqueue: Series::new(steps(enqueue)), batches: Series::new(steps(&[200.0])), work: Series::new(work) }
    }

    fn line(of: &str, ramp: &Ramp) -> String {
        advise(ramp, &about()).into_iter().find(|line| line.starts_with(of)).expect(of)
    }

    #[test]
    fn the_pool_has_the_connections_of_the_knee() {
        let ramp = ramp(&[240.0, 470.0, 900.0, 910.0, 905.0], steps(&[5_000.0]));
        assert_eq!(line("Pool size", &ramp), "Pool size: 4 connections for 900 jobs/s one by one; more bring nothing.");
        let commits = line("One connection", &ramp);
        assert!(commits.contains("commits 250 times a second") && commits.contains("the disk"), "{commits}");
    }

    #[test]
    fn sqlite_gets_no_advice_on_a_pool_and_an_unoptimised_build_is_reported() {
        let about = Circumstances { one_writer: true, optimised: false, ..about() };
        let lines = advise(&ramp(&[240.0, 470.0], steps(&[5_000.0])), &about);
        assert!(lines[0].contains("--release"), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("Pool size") || line.contains("share the wait")), "{lines:?}");
    }

    #[test]
    fn the_slots_are_the_rate_of_a_process_times_the_time_of_a_job() {
        let text = line("Slots", &ramp(&[1.0], steps(&[4_000.0, 8_000.0, 8_000.0, 8_000.0])));
        assert!(text.contains("40 at once if they take 10 ms, 400 at once if they take 100 ms"), "{text}");
        assert!(text.contains("At --slots 16, jobs longer than 4.0 ms"), "{text}");
    }

    #[test]
    fn the_limit_is_named() {
        let limit = |busy: f64, database: Option<f64>, rates: &[f64]| {
            let mut work = steps(rates);
            for step in &mut work {
                (step.machine_busy, step.database_processors) = (Some(busy), database);
            }
            line("What limits", &ramp(&[1.0], work))
        };
        assert!(limit(0.97, Some(1.2), &[9e3, 9e3]).contains("97 % of this machine's 2 were busy, 1.2 of them"));
        assert!(limit(0.97, None, &[9e3, 9e3]).contains("workers on more machines"));
        assert!(limit(0.5, Some(0.4), &[9e3, 5e3]).contains("1 process did 9,000 jobs/s, 2 only 5,000"));
        assert!(limit(0.5, Some(0.4), &[4e3, 9e3]).contains("still grew"));
        assert!(limit(0.5, Some(0.4), &[9e3, 9e3]).contains("the wait for the disk, 4.0 ms"));
    }
}
