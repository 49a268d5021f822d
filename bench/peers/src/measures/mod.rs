//! The measures, one per file. Each runs the systems in turns. In each round another system is first.

mod backlog;
mod bulk;
mod drain;
mod enqueue;
mod latency;
mod snapshot;
mod steady;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use crate::args::{Args, Measure};
use crate::database::Server;
use crate::interrupt;
use crate::name::Name;
use crate::report::{Figures, Report, progress};

/// What every measure needs.
struct Bench<'a> {
    args: &'a Args,
    server: Server,
    server_text: String,
}

/// Runs the measures, and drops the databases afterwards.
pub(crate) async fn run(args: Args) -> Result<()> {
    let server = Server::new(&args.database_url)?;
    let server_text = server.describe().await?;
    let bench = Bench { args: &args, server, server_text };
    let done = interrupt::or_stop(bench.all()).await;
    let cleared = bench.server.clear().await;
    done.and(cleared)
}

impl Bench<'_> {
    async fn all(&self) -> Result<()> {
        progress(&self.server_text);
        for measure in Measure::EACH {
            if self.args.measures.contains(&measure) || self.args.measures.contains(&Measure::All) {
                self.one(measure).await.with_context(|| format!("measuring {measure:?}"))?;
            }
        }
        Ok(())
    }

    async fn one(&self, measure: Measure) -> Result<()> {
        match measure {
            Measure::Drain => drain::run(self).await,
            Measure::Enqueue => enqueue::run(self).await,
            Measure::Bulk => bulk::run(self).await,
            Measure::Latency => latency::run(self).await,
            Measure::Steady => steady::run(self).await,
            Measure::Backlog => backlog::run(self).await,
            Measure::Snapshot => snapshot::run(self).await,
            // `all` consists of the other measures.
            Measure::All => Ok(()),
        }
    }

    /// Returns the systems that the options select.
    fn systems(&self) -> Vec<Name> {
        let asked = &self.args.systems;
        Name::all().iter().copied().filter(|name| asked.is_empty() || asked.contains(name)).collect()
    }

    /// Returns the selected systems without those that differ from another one only in what they keep, for measures
    /// where that makes no difference.
    fn distinct(&self) -> Vec<Name> {
        let systems = self.systems();
        let beside = |name: &Name| *name != Name::JobsRetainNone || !systems.contains(&Name::Jobs);
        systems.iter().copied().filter(beside).collect()
    }

    fn runs(&self, usual: usize) -> usize {
        self.args.runs.unwrap_or(usual).max(1)
    }

    fn print(&self, report: &Report) {
        report.print(self.args.json, &self.server_text);
    }
}

/// Returns the order of the systems' turns: this many rounds, with another system first in each.
fn turns(systems: &[Name], rounds: usize) -> Vec<Name> {
    let round = |first: usize| systems.iter().cycle().skip(first).take(systems.len()).copied();
    (0..rounds).flat_map(|number| round(number % systems.len().max(1))).collect()
}

/// Collects figures in the order of the runs. They are sorted by system at the end.
#[derive(Default)]
struct Collected {
    figures: Vec<(Name, f64, Map<String, Value>)>,
    failures: Vec<(Name, String)>,
}

impl Collected {
    fn add(&mut self, system: Name, figure: f64) {
        self.note(system, figure, Map::new());
    }

    fn note(&mut self, system: Name, figure: f64, notes: Map<String, Value>) {
        self.figures.push((system, figure, notes));
    }

    /// Returns the value of a turn. If another system failed, it records the error, returns `None`, and the others go
    /// on. If diesel-jobs failed, it returns the error, because the comparison is worthless then.
    fn unless_failed<T>(&mut self, system: Name, turn: Result<T>) -> Result<Option<T>> {
        match turn {
            Err(problem) if system.package() != Name::Jobs.package() => {
                let problem = format!("{problem:#}");
                progress(&format!("left out: {problem}"));
                self.failures.push((system, problem));
                Ok(None)
            }
            turn => turn.map(Some),
        }
    }

    /// Returns the figures by system. The notes of a system's runs become lists, with one entry per run.
    fn figures(self, systems: &[Name]) -> Vec<Figures> {
        let of = |system: Name| {
            let failures = self.failures.iter().filter(|(name, _)| *name == system).map(|(_, problem)| problem.clone());
            let mut figures = Figures { system, runs: Vec::new(), failures: failures.collect(), notes: Map::new() };
            for (_, figure, notes) in self.figures.iter().filter(|(name, ..)| *name == system) {
                figures.runs.push(*figure);
                for (key, value) in notes {
                    let list = figures.notes.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                    if let Value::Array(list) = list {
                        list.push(value.clone());
                    }
                }
            }
            figures
        };
        systems.iter().map(|system| of(*system)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_system_is_first_in_each_round() {
        let systems = [Name::Jobs, Name::Apalis, Name::Awa];
        let expected = [Name::Jobs, Name::Apalis, Name::Awa, Name::Apalis, Name::Awa, Name::Jobs];
        assert_eq!(turns(&systems, 2), expected);
    }

    #[test]
    fn figures_stand_by_system() {
        let mut collected = Collected::default();
        collected.add(Name::Awa, 1.0);
        collected.add(Name::Jobs, 2.0);
        collected.add(Name::Awa, 3.0);
        let figures = collected.figures(&[Name::Jobs, Name::Awa]);
        assert_eq!(figures[0].runs, [2.0]);
        assert_eq!(figures[1].runs, [1.0, 3.0]);
    }

    #[test]
    fn a_failure_of_another_system_is_left_out_and_one_of_ours_is_not() {
        let mut collected = Collected::default();
        let failed = || anyhow::Result::<f64>::Err(anyhow::anyhow!("lost a job"));
        assert!(collected.unless_failed(Name::Awa, failed()).unwrap().is_none());
        assert!(collected.unless_failed(Name::JobsRetainNone, failed()).is_err());
        assert_eq!(collected.unless_failed(Name::Jobs, Ok(1.0)).unwrap(), Some(1.0));
        let figures = collected.figures(&[Name::Awa]);
        assert_eq!((figures[0].runs.len(), &figures[0].failures), (0, &vec!["lost a job".to_owned()]));
    }
}
