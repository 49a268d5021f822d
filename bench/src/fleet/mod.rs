//! Worker processes that the benchmark starts, and whose output it reads.

mod process;
mod tally;
mod timeline;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::sync::{mpsc, watch};

use crate::worker_process::Role;
use process::{Event, Process};
pub(crate) use tally::Tally;
pub(crate) use timeline::Timeline;

/// A fleet that completes no job for this long is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// How many processes connect at the same time. A worker gives up if the server does not answer within ten seconds.
const AT_ONCE: usize = 16;
/// How long a worker may take to connect.
const CONNECT: Duration = Duration::from_secs(120);

/// Processes with the same arguments on one database. They are killed when this value is dropped.
pub(crate) struct Fleet {
    url: String,
    arguments: Vec<String>,
    /// All that were ever started, in this order.
    processes: Vec<Process>,
    /// How many of them, from the first on, were killed.
    killed: usize,
    /// The outputs of killed processes that were read to their end.
    ended: usize,
    sender: mpsc::UnboundedSender<(usize, Event)>,
    events: mpsc::UnboundedReceiver<(usize, Event)>,
    completed: Vec<u64>,
    /// The total of completed jobs, for other tasks.
    total: watch::Sender<u64>,
    /// How many jobs all processes had completed at which time since `start`.
    pub(crate) timeline: Timeline,
    /// Starts of probes that were not returned yet: the job's id, and nanoseconds since 1970.
    started: VecDeque<(i64, u128)>,
    /// The durations of claims, in microseconds.
    pub(crate) claims: Vec<f64>,
    /// The runs of jobs that tell when they run, and the conflicts.
    tally: Tally,
}

impl Fleet {
    /// Starts workers of this role and waits until each has connected to the database. They do nothing before
    /// [`start`](Self::start).
    pub(crate) async fn connect(url: &str, number: usize, role: &Role) -> Result<Self> {
        Self::connect_with(url, number, role.arguments()).await
    }

    /// The same with processes of this program that have these arguments. They speak as workers do.
    pub(crate) async fn connect_with(url: &str, number: usize, arguments: Vec<String>) -> Result<Self> {
        let (sender, events) = mpsc::unbounded_channel();
        let mut fleet = Self {
            url: url.to_owned(),
            arguments,
            processes: Vec::new(),
            killed: 0,
            ended: 0,
            sender,
            events,
            completed: Vec::new(),
            total: watch::Sender::new(0),
            timeline: Timeline::new(Instant::now()),
            started: VecDeque::new(),
            claims: Vec::new(),
            tally: Tally::default(),
        };
        let mut connected = 0;
        while connected < number {
            while fleet.processes.len() < number.min(connected + AT_ONCE) {
                fleet.add()?;
            }
            let event = tokio::time::timeout(CONNECT, fleet.events.recv()).await;
            match event.ok().flatten().context("a worker process did not reach the database in time")? {
                (_, Event::Connected) => connected += 1,
                (place, event) => fleet.note(place, event).await?,
            }
        }
        Ok(fleet)
    }

    /// Connects and starts.
    pub(crate) async fn run(url: &str, number: usize, role: &Role) -> Result<Self> {
        let mut fleet = Self::connect(url, number, role).await?;
        fleet.start().await?;
        Ok(fleet)
    }

    /// Starts all workers. The time is measured from here.
    pub(crate) async fn start(&mut self) -> Result<()> {
        self.timeline = Timeline::new(Instant::now());
        for process in &mut self.processes {
            process.say("start").await?;
        }
        Ok(())
    }

    fn add(&mut self) -> Result<&mut Process> {
        let place = self.processes.len();
        self.completed.push(0);
        self.processes.push(Process::spawn(&self.url, &self.arguments, place, self.sender.clone())?);
        Ok(&mut self.processes[place])
    }

    /// Kills this many processes with SIGKILL, and starts as many in their place. These begin as soon as they have
    /// connected.
    pub(crate) async fn replace(&mut self, number: usize) -> Result<()> {
        let old = self.killed..(self.killed + number).min(self.processes.len());
        self.killed = old.end;
        for process in &mut self.processes[old.clone()] {
            process.kill()?;
        }
        for place in old {
            self.processes[place].ended().await?;
            self.add()?.say("start").await?;
        }
        Ok(())
    }

    /// Returns how many jobs are completed, according to the reports received so far.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.iter().sum()
    }

    /// Returns a receiver of the total for another task. It changes only while this task reads reports.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.total.subscribe()
    }

    /// Waits until this many jobs are completed in total. Returns how long that took since `start`.
    pub(crate) async fn until(&mut self, jobs: u64) -> Result<Duration> {
        let mut before = self.completed();
        let mut progress = Instant::now();
        while self.completed() < jobs {
            let left = STUCK.saturating_sub(progress.elapsed());
            match tokio::time::timeout(left, self.events.recv()).await {
                Ok(Some((place, event))) => self.note(place, event).await?,
                Ok(None) => bail!("all worker processes are gone"),
                Err(_) => bail!("no job was completed for {} s; {before} of {jobs} are", STUCK.as_secs()),
            }
            if self.completed() > before {
                before = self.completed();
                progress = Instant::now();
            }
        }
        Ok(self.timeline.last())
    }

    /// Reads reports for this long.
    pub(crate) async fn record_for(&mut self, time: Duration) -> Result<()> {
        let deadline = tokio::time::Instant::now() + time;
        while let Ok(event) = tokio::time::timeout_at(deadline, self.events.recv()).await {
            let (place, event) = event.context("all worker processes are gone")?;
            self.note(place, event).await?;
        }
        Ok(())
    }

    /// Waits for the next start of a probe. Returns the job's id, and the time in nanoseconds since 1970.
    pub(crate) async fn next_start(&mut self) -> Result<(i64, u128)> {
        loop {
            if let Some(start) = self.started.pop_front() {
                return Ok(start);
            }
            let event = tokio::time::timeout(STUCK, self.events.recv()).await;
            let (place, event) = event.ok().flatten().context("a probe was not started")?;
            self.note(place, event).await?;
        }
    }

    /// Returns the PIDs of the processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.processes.iter().filter_map(Process::pid).collect()
    }

    /// Makes the workers drain, as on SIGTERM, and waits until they have ended.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.end().await
    }

    /// Stops the processes and reads what they still have to tell.
    pub(crate) async fn tally(mut self) -> Result<Tally> {
        self.end().await?;
        // Each process has ended, so each output ends, too.
        let mut open = self.processes.len() - self.ended;
        while open > 0 {
            let (place, event) = self.events.recv().await.context("this value holds a sender")?;
            match event {
                Event::Ended => open -= 1,
                event => self.note(place, event).await?,
            }
        }
        self.tally.completed = self.completed();
        Ok(self.tally)
    }

    async fn end(&mut self) -> Result<()> {
        for process in &mut self.processes[self.killed..] {
            process.say("stop").await?;
        }
        for process in &mut self.processes[self.killed..] {
            process.ended().await?;
        }
        Ok(())
    }

    async fn note(&mut self, place: usize, event: Event) -> Result<()> {
        match event {
            Event::Connected => {}
            Event::Completed(total) => {
                self.completed[place] = total;
                let total = self.completed();
                self.timeline.push(Instant::now(), total);
                self.total.send_replace(total);
            }
            Event::Started(job, at) => self.started.push_back((job, at)),
            Event::Claimed(micros) => self.claims.push(micros),
            Event::Ran(id) => self.tally.ran(id),
            Event::Conflicts(total) => self.tally.met(place, total),
            Event::Ended if place < self.killed => self.ended += 1,
            Event::Ended => bail!("a worker process ended by itself:\n{}", self.processes[place].end_of_log().await),
        }
        Ok(())
    }
}
