//! The ramp: three series of steps. Each series raises one number until the rate stops growing or its time is up.

use std::time::{Duration, Instant};

use super::bounds::Bounds;
use super::measure::Bench;
use super::progress::Progress;
use super::step::{Load, Series, Step, doublings, stopped_growing};
use crate::cli::exit::CliError;
use crate::cli::output::count;

/// The shortest and the longest time for which a step is measured.
const WINDOW: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(5));

/// The first estimate of the time that a step takes besides its window: processes start and end, tables are emptied.
const OVERHEAD: Duration = Duration::from_millis(500);

/// The share of the remaining time that each series may use. The last series may use all of it.
const SHARES: [f64; 3] = [0.35, 0.3, 1.0];

/// The batch sizes.
const BATCHES: [usize; 3] = [10, 100, 1000];

/// How the jobs for the last series are enqueued: the number of connections, and the batch size.
const SUPPLY: (usize, usize) = (2, 500);

/// All measurements.
pub(super) struct Ramp {
    /// Jobs enqueued one by one, each in a transaction of its own, through more and more connections.
    pub(super) enqueue: Series,
    /// Jobs enqueued in larger and larger transactions, through one connection.
    pub(super) batches: Series,
    /// Jobs run by more and more processes, while jobs are enqueued.
    pub(super) work: Series,
}

/// Returns the name of a step.
pub(super) fn label(step: &Step, is_work: bool) -> String {
    let Step { processes, connections, batch, .. } = step;
    if is_work {
        format!("work, {processes} {}", if *processes == 1 { "process" } else { "processes" })
    } else if *batch == 1 {
        format!("enqueue one by one, {}", count(i64::try_from(*connections).unwrap_or(i64::MAX), "connection"))
    } else {
        format!("enqueue batches of {batch}, 1 connection")
    }
}

pub(super) async fn ramp(
    bench: &Bench<'_>,
    bounds: Bounds,
    deadline: Instant,
    progress: &Progress,
) -> Result<Ramp, CliError> {
    let mut measurement = SeriesMeasurement { bench, deadline, progress, overhead: OVERHEAD };
    let one = Load { processes: 1, connections: 1, batch: 1, keeps_work: false };

    let loads = doublings(bounds.connections).into_iter().map(|connections| Load { connections, ..one });
    let enqueue = measurement.measure_series(Vec::new(), loads.collect(), SHARES[0]).await?;
    // The step with one connection and one job per transaction is also the first step of the batches.
    let first = enqueue.iter().take(1).cloned().collect();
    let loads = BATCHES.map(|batch| Load { batch, ..one });
    let batches = measurement.measure_series(first, loads.to_vec(), SHARES[1]).await?;
    let (connections, batch) = SUPPLY;
    let loads = doublings(bounds.processes).into_iter().map(|processes| Load {
        processes,
        connections,
        batch,
        keeps_work: true,
    });
    let work = measurement.measure_series(Vec::new(), loads.collect(), SHARES[2]).await?;
    Ok(Ramp { enqueue: Series::new(enqueue), batches: Series::new(batches), work: Series::new(work) })
}

struct SeriesMeasurement<'a> {
    bench: &'a Bench<'a>,
    deadline: Instant,
    progress: &'a Progress,
    overhead: Duration,
}

impl SeriesMeasurement<'_> {
    /// Measures one load after the other, until the time of the series is up or the rate stops growing. The first load
    /// is measured even if no time is left.
    async fn measure_series(
        &mut self,
        mut steps: Vec<Step>,
        loads: Vec<Load>,
        share: f64,
    ) -> Result<Vec<Step>, CliError> {
        let given = steps.len();
        let end = Instant::now() + self.deadline.saturating_duration_since(Instant::now()).mul_f64(share);
        for (at, load) in loads.iter().enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            let window = (left / u32::try_from(loads.len() - at).unwrap_or(1)).saturating_sub(self.overhead);
            if at > 0 && left < WINDOW.0 + self.overhead {
                break;
            }
            let begun = Instant::now();
            let step = self.bench.measure(*load, window.clamp(WINDOW.0, WINDOW.1)).await?;
            let beside = begun.elapsed().saturating_sub(Duration::from_secs_f64(step.seconds));
            self.overhead = (self.overhead + beside) / 2;
            self.progress.step(&label(&step, load.keeps_work), &step);
            steps.push(step);
            if steps.len() > given && stopped_growing(&steps) {
                break;
            }
        }
        Ok(steps)
    }
}
