//! `cargo xtask lint`: checks formatting, clippy, dependencies and house rules.

use std::path::Path;

use anyhow::{Result, bail};

use crate::{
    run::{cargo, run as execute, run_with_retries, succeeds},
    tidy,
};

pub(crate) fn run(root: &Path) -> Result<()> {
    execute(cargo(root).args(["fmt", "--all", "--check"]), "cargo fmt --all")?;
    // A workspace of its own.
    let peers = ["fmt", "--manifest-path", "bench/peers/Cargo.toml"];
    execute(cargo(root).args(peers).arg("--check"), "cargo fmt --manifest-path bench/peers/Cargo.toml")?;
    execute(
        cargo(root).args(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]),
        "follow clippy's advice; where it is wrong, `#[expect(.., reason = \"..\")]` on the smallest item",
    )?;
    dependencies(root)?;
    tidy::run(root)
}

/// Licences, bans and sources need only the lock file. Advisories need their database, which is downloaded.
fn dependencies(root: &Path) -> Result<()> {
    ensure_cargo_deny(root)?;
    execute(
        cargo(root).args(["deny", "check", "bans", "licenses", "sources"]),
        "choose another crate, or amend deny.toml and say there why",
    )?;
    if !succeeds(cargo(root).args(["deny", "fetch", "db"])) {
        eprintln!("SKIPPED: `cargo deny check advisories`: the advisory database is out of reach from here");
        return Ok(());
    }
    execute(
        cargo(root).args(["deny", "check", "advisories"]),
        "cargo update -p CRATE; if there is no fixed version, list the advisory in deny.toml with the reason",
    )
}

fn ensure_cargo_deny(root: &Path) -> Result<()> {
    const INSTALL: &str = "cargo install --locked --debug cargo-deny";
    if succeeds(cargo(root).args(["deny", "--version"])) {
        return Ok(());
    }
    if std::env::var("CI").as_deref() != Ok("true") {
        bail!("cargo-deny is not installed\n  to fix: {INSTALL}");
    }
    // Without optimisation it compiles in about a minute.
    run_with_retries(cargo(root).args(INSTALL.split(' ').skip(1)), INSTALL)
}
