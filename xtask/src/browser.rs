//! What the tests of pages need besides PostgreSQL: a browser, its driver, and axe-core, which checks whether everybody
//! can use a page.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::run::run_with_retries;

const PACKAGE: &str = include_str!("../axe/package.json");
const LOCK: &str = include_str!("../axe/package-lock.json");

/// The variables that tell the tests where everything is. Installs what is missing.
pub(crate) fn variables(root: &Path) -> Result<[(&'static str, PathBuf); 3]> {
    let found = cluster::browser::ensure()?;
    Ok([
        ("JOBS_TEST_CHROMIUM", found.browser),
        ("JOBS_TEST_CHROMEDRIVER", found.driver),
        ("JOBS_TEST_AXE", axe(&root.join("target/axe"))?),
    ])
}

/// The script of axe-core, which npm downloads once, with a known checksum.
fn axe(base: &Path) -> Result<PathBuf> {
    let (script, complete) = (base.join("node_modules/axe-core/axe.min.js"), base.join("complete"));
    if script.is_file() && fs::read_to_string(&complete).is_ok_and(|lock| lock == LOCK) {
        return Ok(script);
    }
    fs::create_dir_all(base).with_context(|| format!("cannot make {}", base.display()))?;
    fs::write(base.join("package.json"), PACKAGE)?;
    fs::write(base.join("package-lock.json"), LOCK)?;
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(base);
    run_with_retries(&mut npm, "install Node.js and npm, and let npm reach its registry")?;
    if !script.is_file() {
        bail!(
            "npm installed axe-core without {}\n  to fix: remove {} and run this again",
            script.display(),
            base.display()
        );
    }
    fs::write(complete, LOCK)?;
    Ok(script)
}
