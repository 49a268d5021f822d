//! Jobs at a steady rate, the times they wait, and the load on the server.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::Client;
use torture::history::Record;
use torture::workload::{Application, EnqueueCall, Shape, Work};

use super::fixture::Fixture;
use super::run::{Run, quantile};

/// Added to a limit that is a multiple of a small number.
const NOISE: Duration = Duration::from_millis(5);
/// The ticks per second of the processor times in `/proc`, on every Linux.
const TICKS: f64 = 100.0;

/// Enqueues jobs with these numbers, at `rate` per second.
pub(super) async fn steady(application: &mut Application, numbers: Range<i64>, rate: f64) -> Result<()> {
    let mut ticks = interval(Duration::from_secs_f64(1.0 / rate));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in numbers {
        ticks.tick().await;
        application.perform(&EnqueueCall::Single(Work::new(number, Shape::Async))).await?;
    }
    Ok(())
}

/// Returns the times from enqueue to start of these jobs, in seconds.
pub(super) fn waits(record: &Record, numbers: Range<i64>) -> Vec<f64> {
    let jobs = record.jobs.iter().filter(|job| numbers.contains(&job.number));
    let enqueued: HashMap<i64, _> = jobs.map(|job| (job.number, job.enqueued_at)).collect();
    let starts = record.events.iter().filter(|event| event.what == "start");
    starts.filter_map(|start| Some((start.at - *enqueued.get(&start.number)?).as_seconds_f64())).collect()
}

/// Returns the time in which these jobs would have started at the offered rate, divided by the time in which they did.
pub(super) fn share_done(record: &Record, numbers: Range<i64>, rate: f64) -> f64 {
    let starts = record.events.iter().filter(|event| event.what == "start" && numbers.contains(&event.number));
    let enqueued = record.jobs.iter().filter(|job| numbers.contains(&job.number)).map(|job| job.enqueued_at).min();
    let Some((first, last)) = enqueued.zip(starts.map(|start| start.at).max()) else { return 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "a number of jobs")]
    let offered = (numbers.end - numbers.start - 1) as f64 / rate;
    offered / (last - first).as_seconds_f64()
}

/// Adds a complaint if the 99th percentile of these waits is above `bar`.
pub(super) fn expect_prompt(run: &mut Run, what: &str, waits: &[f64], bar: Duration) {
    let seen = quantile(waits, 0.99).unwrap_or(f64::INFINITY);
    run.expect_in_time(seen <= bar.as_secs_f64(), || {
        format!("p99 of the start of jobs {what} is {seen:.3} s, and should be {:.3} s", bar.as_secs_f64())
    });
}

/// Adds a complaint if the 99th percentile of these waits is more than `times` times that of the others.
pub(super) fn expect_times(run: &mut Run, what: &str, waits: &[f64], before: &[f64], times: f64) {
    let bar = times * quantile(before, 0.99).unwrap_or(f64::NAN) + NOISE.as_secs_f64();
    let seen = quantile(waits, 0.99).unwrap_or(f64::INFINITY);
    run.expect_in_time(seen <= bar, || {
        format!("p99 of the start of jobs {what} is {seen:.3} s, and should be {bar:.3} s")
    });
}

/// Returns the part of a processor that the server's processes for this database use, after the workers have settled. A
/// run whose times are not judged does not wait for it.
pub(super) async fn server_load(fixture: &Fixture<'_>, settle: Duration, watched: Duration) -> Result<f64> {
    if fixture.untimed {
        return Ok(0.0);
    }
    let conn = &fixture.connect().await?;
    tokio::time::sleep(settle).await;
    let span = if fixture.short { watched / 4 } else { watched };
    let before = ticks(conn).await?;
    tokio::time::sleep(span).await;
    let after = ticks(conn).await?;
    let spent: u64 = after.iter().map(|(pid, ticks)| ticks - before.get(pid).unwrap_or(&0).min(ticks)).sum();
    #[expect(clippy::cast_precision_loss, reason = "a number of ticks")]
    let seconds = spent as f64 / TICKS;
    Ok(seconds / span.as_secs_f64())
}

/// Returns the processor ticks of each server process of this database, except that of this connection.
async fn ticks(conn: &Client) -> Result<HashMap<i32, u64>> {
    const PIDS: &str =
        "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    let mut ticks = HashMap::new();
    for row in conn.query(PIDS, &[]).await? {
        let pid: i32 = row.get(0);
        // A process that has ended meanwhile used hardly any time.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name is in parentheses, and may contain any character.
        let fields: Vec<&str> = stat.rsplit_once(')').context("no process line")?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
        ticks.insert(pid, number(11) + number(12));
    }
    Ok(ticks)
}
