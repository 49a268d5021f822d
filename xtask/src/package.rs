//! `cargo xtask package`: packs the published crates, and builds and runs the README's applications with only the
//! packed files.

mod applications;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::run::{capture, cargo, run as execute};

/// The published crates. Each comes before those that depend on it.
const PACKAGES: [&str; 5] =
    ["diesel-jobs-macros", "diesel-jobs-core", "diesel-jobs-storage", "diesel-jobs-web", "diesel-jobs"];
/// The files that each package has in its top directory besides its sources.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// Parts of paths that no package may contain: files that build, test and measure the workspace.
const FOREIGN: [&str; 9] =
    [".cargo/", ".ci/", ".svg", ".png", "bench/peers", "tests/", "torture/", "xtask/", "deny.toml"];

/// The dashboard's icon, which is compiled in.
const ICON: &str = "assets/icon.svg";

pub(crate) fn run(root: &Path) -> Result<()> {
    let target = target_directory(root)?;
    let mut pack = cargo(root);
    pack.args(["package", "--locked", "--no-verify", "--allow-dirty"]);
    for package in PACKAGES {
        pack.args(["--package", package]);
    }
    execute(&mut pack, "correct what cargo names above in the package's Cargo.toml")?;

    let outside = OutsideDirectory::new()?;
    let version = env!("CARGO_PKG_VERSION");
    for package in PACKAGES {
        let name = format!("{package}-{version}");
        let archive = target.join("package").join(format!("{name}.crate"));
        let mut unpack = std::process::Command::new("tar");
        unpack.arg("-xzf").arg(&archive).arg("-C").arg(&outside.0);
        capture(&mut unpack, "install tar and gzip")?;
        check_contents(&outside.0.join(&name)).with_context(|| format!("{package} is packed wrongly"))?;
    }
    applications::run(root, &outside.0, &target.join("packed-application"))
}

/// Checks that a packed crate contains all required files and none of the workspace's own.
fn check_contents(packed: &Path) -> Result<()> {
    for file in FILES {
        if !packed.join(file).is_file() {
            bail!("{file} is missing\n  to fix: put it, or a link to the workspace's, beside the package's Cargo.toml");
        }
    }
    let mut open = vec![packed.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let within = path.strip_prefix(packed)?.display().to_string();
            if path.is_dir() {
                open.push(path);
            } else if let Some(what) = FOREIGN.iter().find(|what| within.contains(*what) && within != ICON) {
                bail!("{within} is packed ({what})\n  to fix: narrow `include` in the package's Cargo.toml");
            }
        }
    }
    Ok(())
}

fn target_directory(root: &Path) -> Result<PathBuf> {
    let mut command = cargo(root);
    let text = capture(command.args(["metadata", "--no-deps", "--format-version", "1"]), "correct Cargo.toml")?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(target))
}

/// A temporary directory outside of the workspace. It is removed when dropped.
struct OutsideDirectory(PathBuf);

impl OutsideDirectory {
    fn new() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("diesel-jobs-package-{}", std::process::id()));
        fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Self(directory))
    }
}

impl Drop for OutsideDirectory {
    fn drop(&mut self) {
        if let Err(problem) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {problem}", self.0.display());
        }
    }
}
