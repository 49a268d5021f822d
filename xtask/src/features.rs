//! `cargo xtask features`: checks that every useful combination of Cargo features compiles without a warning.

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
    // `cargo check` would deny warnings only through RUSTFLAGS, with which it compiles all dependencies again. Nothing
    // is run, so SQLite's C code need not be quick.
    let quick = "profile.dev.package.libsqlite3-sys.opt-level=0";
    execute(
        cargo(root)
            .args(["clippy", "--config", quick, "--package", "diesel-jobs"])
            .args(features)
            .args(["--", "-D", "warnings"]),
        "put what needs the missing feature behind `#[cfg(feature = \"..\")]`, or let the feature imply it in Cargo.toml",
    )
}
