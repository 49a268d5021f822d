//! `cargo xtask ci`: runs all checks. The checks whose failures matter most come first.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result};

use crate::{doc, features, lint, package, test, versions};

type Step = fn(&Path) -> Result<()>;

const STEPS: &[(&str, Step)] = &[
    ("test", |root| test::run(root, &test::Options::default())),
    ("versions", |root| versions::run(root, &versions::Options::default())),
    ("lint", lint::run),
    ("features", features::run),
    ("doc", doc::run),
    ("package", package::run),
];

pub(crate) fn run(root: &Path) -> Result<()> {
    let mut times = Vec::new();
    for (name, step) in STEPS {
        let start = Instant::now();
        let done = step(root);
        times.push(format!("{name:<10}{:>7.1} s", start.elapsed().as_secs_f64()));
        eprintln!("\n{}\n", times.join("\n"));
        done.with_context(|| format!("step `{name}` failed (alone: cargo xtask {name})"))?;
    }
    Ok(())
}
