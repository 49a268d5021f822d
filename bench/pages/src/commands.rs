//! The commands that people wait for, each as a process of its own.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use crate::figure::Figure;
use crate::store::Store;
use crate::targets::Targets;

/// The most milliseconds of a command.
const MOST: f64 = 100.0;

/// The program with the commands. It is built together with this one.
fn program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("pages-worker");
    if !program.exists() {
        bail!("{} is missing: build it with cargo build -p jobs-pages --bins", program.display());
    }
    Ok(program)
}

/// Runs a command, and returns how much it prints.
async fn run(program: &PathBuf, url: &str, words: &[String]) -> Result<usize> {
    let output = Command::new(program)
        .args(words)
        .env("DATABASE_URL", url)
        .stdin(Stdio::null())
        .output()
        .await
        .context("starting the worker")?;
    if !output.status.success() {
        bail!("`{}` failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout.len())
}

/// Measures all commands whose line contains the text.
pub(crate) async fn measure(store: &Store, targets: &Targets, runs: u32, only: &str) -> Result<Vec<Figure>> {
    let program = program()?;
    let lines = [
        "stats".to_owned(),
        "list".to_owned(),
        "list --state discarded".to_owned(),
        "list --state available --queue queue_3".to_owned(),
        "list --kind kind_7".to_owned(),
        "list --kind nothing".to_owned(),
        "failures".to_owned(),
        format!("show {}", targets.available),
        format!("show {}", targets.completed),
        format!("show {}", targets.discarded),
        format!("why {}", targets.available),
        format!("why {}", targets.scheduled),
        format!("why {}", targets.discarded),
    ];
    let mut figures = Vec::new();
    for line in lines.into_iter().filter(|line| line.contains(only)) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..=runs {
            let begun = Instant::now();
            bytes = run(&program, &store.url, &words).await?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        let first = times.remove(0);
        times.sort_by(f64::total_cmp);
        figures.push(Figure { name: format!("`{line}`"), first, times, most: MOST, statements: None, bytes });
    }
    Ok(figures)
}
