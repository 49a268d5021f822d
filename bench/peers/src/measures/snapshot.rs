//! `snapshot`: the measure `steady` while another session holds an older snapshot. No dead row can be vacuumed, as with
//! a forgotten transaction or a long report.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, json};

use super::{Bench, Collected, steady, turns};
use crate::database::connect;
use crate::report::{Report, progress};

const WINDOW: Duration = Duration::from_secs(10);

pub(super) async fn run(bench: &Bench<'_>) -> Result<()> {
    let systems = bench.distinct();
    let windows = usize::try_from(6 * bench.args.seconds / WINDOW.as_secs())?.max(2);
    let mut first = Collected::default();
    let mut last = Collected::default();
    for system in turns(&systems, bench.runs(1)) {
        let database = bench.server.with_jobs(system, 0, async |_| Ok(())).await?;
        let session = connect(&database.url).await?;
        session.batch_execute("begin isolation level repeatable read; select count(*) from pg_class").await?;
        let seen = steady::flow(system, &database, windows, WINDOW).await;
        session.batch_execute("rollback").await?;
        drop(session);
        bench.server.drop(database).await?;
        let Some(seen) = last.unless_failed(system, seen)? else { continue };
        let rates: Vec<f64> = seen.windows.iter().map(|rate| rate.round()).collect();
        progress(&format!("snapshot {}: {rates:?} jobs/s, {:.0} waiting", system.text(), seen.waiting));
        first.add(system, seen.windows[0]);
        let notes = [("windows".to_owned(), json!(rates)), ("waiting".to_owned(), json!(seen.waiting.round()))];
        last.note(system, seen.windows[windows - 1], Map::from_iter(notes));
    }
    for (which, found) in [("first", first), ("last", last)] {
        let variant = format!("{which} 10 s of {}", windows * 10);
        let figures = found.figures(&systems);
        bench.print(&Report { measure: "snapshot", variant, unit: "jobs/s", n: None, figures });
    }
    Ok(())
}
