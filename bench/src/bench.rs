//! One run of the program: the server, the options, and the output of results.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use crate::cli::Options;
use crate::report::{Line, Run, Runs, table, tidy};
use crate::server::{Server, machine};

pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) options: Options,
    settings: Map<String, Value>,
}

impl Bench {
    pub(crate) async fn open(options: Options) -> Result<Self> {
        let url = options.database_url.as_deref().filter(|url| !url.is_empty()).context(
            "DATABASE_URL is not set: name a PostgreSQL server, such as postgres://postgres@localhost:5432/postgres",
        )?;
        let server = Server::connect(url).await?;
        let mut settings = machine();
        settings.extend(server.settings().await?);
        let bench = Self { server, options, settings };
        if !bench.options.json {
            println!("{}\n", bench.settings_text());
        }
        Ok(bench)
    }

    fn settings_text(&self) -> String {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.settings.iter().map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" ")
    }

    /// Prints progress to standard error.
    pub(crate) fn note(&self, text: &str) {
        eprintln!("{text}");
    }

    /// Runs diesel-jobs and the raw baseline in turns, so that changes of the machine's load affect both.
    pub(crate) async fn alternate(
        &self,
        variant: &str,
        ours: impl AsyncFnMut() -> Result<Run>,
        raw: impl AsyncFnMut() -> Result<Run>,
    ) -> Result<Runs> {
        self.turns(variant, self.options.runs, ours, raw).await
    }

    /// Like [`alternate`](Self::alternate), for long runs that show their own variation. The raw baseline runs once, in
    /// the first turn.
    pub(crate) async fn beside_one_raw(
        &self,
        variant: &str,
        ours: impl AsyncFnMut() -> Result<Run>,
        raw: impl AsyncFnMut() -> Result<Run>,
    ) -> Result<Runs> {
        self.turns(variant, 1, ours, raw).await
    }

    async fn turns(
        &self,
        variant: &str,
        raw_runs: u16,
        mut ours: impl AsyncFnMut() -> Result<Run>,
        mut raw: impl AsyncFnMut() -> Result<Run>,
    ) -> Result<Runs> {
        let mut runs = Runs::default();
        for number in 1..=self.options.runs {
            let run = ours().await.with_context(|| format!("{variant}, run {number} of ours"))?;
            self.note(&format!("{variant}: run {number}, ours {}", tidy(run.value)));
            runs.ours.push(run);
            if self.options.no_raw || number > raw_runs {
                continue;
            }
            let run = raw().await.with_context(|| format!("{variant}, run {number} of raw"))?;
            self.note(&format!("{variant}: run {number}, raw {}", tidy(run.value)));
            runs.raw.push(run);
        }
        Ok(runs)
    }

    /// Runs a measure without a raw baseline.
    pub(crate) async fn repeat(&self, variant: &str, mut ours: impl AsyncFnMut() -> Result<Run>) -> Result<Runs> {
        let mut runs = Runs::default();
        for number in 1..=self.options.runs {
            let run = ours().await.with_context(|| format!("{variant}, run {number}"))?;
            self.note(&format!("{variant}: run {number}, {}", tidy(run.value)));
            runs.ours.push(run);
        }
        Ok(runs)
    }

    /// Takes a complete line. With `--json` it is printed at once. It is also kept for the table.
    pub(crate) fn report(&self, lines: &mut Vec<Line>, mut line: Line) -> Result<()> {
        let mut settings = self.settings.clone();
        settings.extend(std::mem::take(&mut line.settings));
        line.settings = settings;
        if self.options.json {
            println!("{}", serde_json::to_string(&line)?);
        }
        lines.push(line);
        Ok(())
    }

    /// Prints the table of a complete measure. With `--json` it prints nothing.
    pub(crate) fn finish(&self, title: &str, lines: &[Line]) {
        if !self.options.json && !lines.is_empty() {
            println!("{title}\n{}", table(lines));
        }
    }

    pub(crate) async fn close(&self) {
        self.server.clear().await;
    }
}
