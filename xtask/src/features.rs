//! `cargo xtask features`: checks that every useful combination of Cargo features compiles.

use std::path::Path;

use anyhow::Result;

use crate::run::{cargo, run as execute};

/// The combinations that users depend on. `postgres-sync` implies `postgres`.
const COMBINATIONS: &[&str] = &[
    "",
    "postgres",
    "sqlite",
    "postgres-sync",
    "cli,postgres",
    "cli,sqlite",
    "bench,postgres",
    "listen,postgres",
    "dashboard,postgres",
    "dashboard,sqlite",
    "top,sqlite",
    "metrics,opentelemetry,postgres",
    "postgres,sqlite",
    "testing",
    "testing,postgres",
    "testing,sqlite",
    "eyre,jiff,time,postgres",
];

pub(crate) fn run(root: &Path) -> Result<()> {
    for features in COMBINATIONS {
        check(root, &["--no-default-features", "--features", features])?;
    }
    check(root, &["--all-features"])
}

fn check(root: &Path, features: &[&str]) -> Result<()> {
    execute(
        cargo(root).args(["check", "--package", "diesel-jobs"]).args(features),
        "put what needs the missing feature behind `#[cfg(feature = \"..\")]`, or let the feature imply it in Cargo.toml",
    )
}
