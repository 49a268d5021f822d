//! Zombies: workers that are suspended for three leases, and then continue with what they were about to write.
//!
//! The four moments of the suspension are: in a handler, in the transaction of a handler, after a finish was sent, and
//! after a commit was sent. A proxy delays finishes and commits until other workers run the jobs or have run them. No
//! stale write is accepted. A commit whose finish came in time is no stale write.

use std::time::Duration;

use anyhow::{Context as _, Result};
use torture::checker::Promise;
use torture::history::fault;
use torture::process::{Process, Signal};
use torture::proxy::{Held, Proxy};
use torture::workload::{Application, EnqueueCall, Shape, Work};

use super::fixture::{Fixture, History, LEASE, START, Size, number};
use super::fleet::Fleet;
use super::recovery;
use super::run::Run;
use super::statements::{COMMIT, FINISH};

/// The number of zombies.
const SHORT: Size = Size { jobs: 0, faults: 4 };
const LONG: Size = Size { jobs: 0, faults: 216 };
/// The number of zombies of one phase at the same time.
const AT_ONCE: usize = 6;
const SLOTS: &str = "8";
/// Long enough to see that a job has started, and to suspend its worker.
const BODY_MILLIS: u64 = 2_000;
/// The duration of the next attempt. Some jobs still run when the zombie continues, others have ended.
const HEIR_MILLIS: [u64; 3] = [8_000, 0, 0];
const REST: Duration = Duration::from_secs(60);

/// Where a zombie is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Body,
    Transaction,
    Finish,
    Commit,
}

/// A worker that is suspended, or soon will be.
struct Zombie {
    phase: Phase,
    process: Process,
    /// The proxy between it and the server, which holds back its finishes or its commits.
    line: Option<(Proxy, std::sync::Arc<Held>)>,
}

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let mut stage = Stage { application: Application::new(fixture.url()), fixture, next: 1 };
    let mut stopped = 0;
    let mut silent = Vec::new();
    let mut drained = true;
    while stopped < size.faults {
        let each = ((size.faults - stopped) / 4).clamp(1, AT_ONCE);
        let mut zombies = Vec::new();
        for phase in [Phase::Body, Phase::Transaction, Phase::Finish, Phase::Commit] {
            zombies.extend(stage.stop(phase, each).await?);
        }
        stopped += zombies.len();
        let heirs = Fleet::start(
            fixture,
            fixture.worker_url(),
            History::Quick,
            &["--slots", "16", "--poll-interval", "200ms"],
            1,
        )
        .await?;
        tokio::time::sleep(3 * LEASE).await;
        for zombie in &zombies {
            // What the proxy held arrives before its sender continues.
            if let Some((_, held)) = &zombie.line {
                held.release();
            }
        }
        for zombie in &mut zombies {
            zombie.process.signal(Signal::CONT)?;
        }
        for zombie in &mut zombies {
            let declared_dead = zombie.process.said("was declared dead", START).await.is_ok();
            // If the finish came in time before the commit, the worker has not lost its lease.
            let lost_lease =
                zombie.phase == Phase::Commit || zombie.process.said("lost its lease", START).await.is_ok();
            if !(declared_dead && lost_lease) {
                silent.push(zombie.process.id());
            }
        }
        drained &= fixture.at_rest(REST).await?;
        if !drained {
            break;
        }
        heirs.stop().await?;
    }
    let mut run = Run::check(fixture, &stage.application.ledger(), Promise::default()).await?;
    run.load = format!("{}, body / transaction / finish / commit", run.load);
    run.faults = stopped;
    run.recovery = recovery::of_crashes(&run.record);
    run.expect(drained, || "the heir did not do the zombies' jobs".to_owned());
    run.expect(silent.is_empty(), || format!("processes {silent:?} did not log that they lost their leases"));
    run.expect_within(0.99, LEASE + Duration::from_secs(2));
    Ok(run)
}

/// Starts and suspends zombies.
struct Stage<'a> {
    application: Application,
    fixture: &'a Fixture<'a>,
    next: i64,
}

impl Stage<'_> {
    /// Starts `count` workers, and suspends them in this phase.
    async fn stop(&mut self, phase: Phase, count: usize) -> Result<Vec<Zombie>> {
        let mut zombies = Vec::new();
        for _ in 0..count {
            zombies.push(self.zombie(phase).await?);
        }
        for zombie in &mut zombies {
            zombie.process.said("worker started", START).await?;
        }
        // Each must have a job. Those without one get more.
        let conn = self.fixture.connect().await?;
        for zombie in &zombies {
            let begun =
                format!("select count(*) from torture.event where pid = {} and what = 'start'", zombie.process.id());
            while number(&conn, &begun).await? == 0 {
                self.enqueue(phase, count).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        for zombie in &zombies {
            if let Some((_, held)) = &zombie.line {
                tokio::time::timeout(START, held.caught()).await.context("no finish was seen on its way")?;
            }
            fault(&conn, "stop", Some(zombie.process.id())).await?;
            zombie.process.signal(Signal::STOP)?;
        }
        Ok(zombies)
    }

    async fn zombie(&self, phase: Phase) -> Result<Zombie> {
        let line = match phase {
            Phase::Finish | Phase::Commit => {
                let proxy = Proxy::start(self.fixture.upstream()).await?;
                let held = proxy.hold(if phase == Phase::Finish { FINISH } else { COMMIT });
                Some((proxy, held))
            }
            Phase::Body | Phase::Transaction => None,
        };
        let url = line
            .as_ref()
            .map_or_else(|| self.fixture.worker_url(), |(proxy, _)| self.fixture.url_through(proxy.port()));
        let process = self.fixture.worker(&url, History::Quick, &["--slots", SLOTS, "--poll-interval", "100ms"])?;
        Ok(Zombie { phase, process, line })
    }

    async fn enqueue(&mut self, phase: Phase, count: usize) -> Result<()> {
        let shapes = match phase {
            Phase::Body => [Shape::Async, Shape::Blocking],
            Phase::Transaction | Phase::Commit => [Shape::Transactional, Shape::TransactionalBlocking],
            Phase::Finish => [Shape::Async, Shape::Transactional],
        };
        let millis = match phase {
            Phase::Body | Phase::Transaction => BODY_MILLIS,
            Phase::Finish | Phase::Commit => 0,
        };
        let works = shapes.iter().cycle().zip(HEIR_MILLIS.iter().cycle()).take(6 * count).map(|(shape, later)| {
            self.next += 1;
            Work::new(self.next, *shape).lasting(millis).and_later(*later)
        });
        self.application.perform(&EnqueueCall::Bulk(works.collect())).await?;
        Ok(())
    }
}
