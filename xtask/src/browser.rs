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
/// The packages whose tests need a browser.
const PACKAGES: [&str; 1] = ["jobs-web-tests"];

/// The variables that tell the tests where everything is. Installs what is missing.
pub(crate) fn variables(root: &Path) -> Result<[(&'static str, PathBuf); 3]> {
    let found = cluster::browser::ensure()?;
    Ok([
        ("JOBS_TEST_CHROMIUM", found.browser),
        ("JOBS_TEST_CHROMEDRIVER", found.driver),
        ("JOBS_TEST_AXE", axe(&root.join("target/axe"))?),
    ])
}

/// Whether a test run with these arguments of `cargo test` includes tests that need a browser.
pub(crate) fn is_needed(arguments: &[String]) -> bool {
    let options: Vec<&String> = arguments.iter().take_while(|argument| *argument != "--").collect();
    let named: Vec<&str> = options
        .iter()
        .enumerate()
        .filter_map(|(at, option)| match option.as_str() {
            "-p" | "--package" => options.get(at + 1).map(|name| name.as_str()),
            option => option.strip_prefix("--package=").or_else(|| option.strip_prefix("-p")),
        })
        .collect();
    named.is_empty() || named.iter().any(|name| PACKAGES.contains(name))
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

#[cfg(test)]
mod tests {
    use super::is_needed;

    #[test]
    fn a_browser_is_only_needed_for_tests_of_pages() {
        let needed = |line: &str| is_needed(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        for line in [
            "",
            "name",
            "-- -p other",
            "-p jobs-web-tests",
            "--package jobs-web-tests -- name",
            "--package=jobs-web-tests",
        ] {
            assert!(needed(line), "{line}");
        }
        for line in
            ["-p diesel-jobs", "--package diesel-jobs --test conformance", "-p diesel-jobs -- -p jobs-web-tests"]
        {
            assert!(!needed(line), "{line}");
        }
    }
}
