//! `cargo xtask screenshots`: takes the pictures of the dashboard for the guide and the README.
//!
//! A test fills a database and takes a picture of every page. Those that the documentation shows are copied into it.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use cluster::Session;

use crate::browser;
use crate::run::{cargo, run as execute};

/// The pictures of the documentation.
const SHOWN: [&str; 8] = [
    "overview-light",
    "overview-dark",
    "job-light",
    "queues-light",
    "failures-light",
    "operations-light",
    "doctor-light",
    "purge-light",
];
/// A picture is downloaded with each visit of the README.
const MOST_BYTES: u64 = 100 * 1024;

pub(crate) fn run(root: &Path) -> Result<()> {
    let postgres = cluster::ensure()?;
    let session = Session::begin(root.join(cluster::TESTS), &postgres)?;
    let directory = root.join("target/screenshots");
    let mut test = cargo(root);
    test.args(["test", "--package", "jobs-web-tests", "--all-features", "--test", "web", "--", "pictures"])
        .envs(browser::variables(root)?)
        .env("JOBS_TEST_DATABASE_URL", session.url())
        .env("JOBS_TEST_PG_BIN", &postgres.bin)
        .env("JOBS_SCREENSHOTS", &directory);
    if let Some(dir) = &postgres.libpq {
        test.env("PQ_LIB_DIR", dir);
    }
    execute(&mut test, "read the test's output above")?;
    let to = root.join("docs/guide/dashboard");
    fs::create_dir_all(&to)?;
    for name in SHOWN {
        let (from, to) = (directory.join(format!("{name}.png")), to.join(format!("{name}.png")));
        let size = fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        if size > MOST_BYTES {
            bail!(
                "{} takes {size} bytes\n  to fix: take a smaller picture in tests/web/suite/pictures.rs",
                to.display()
            );
        }
        eprintln!("{}: {size} bytes", to.display());
    }
    Ok(())
}
