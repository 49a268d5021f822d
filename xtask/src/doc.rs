//! `cargo xtask doc`: builds the documentation, and fails on a broken link.

use std::path::Path;

use anyhow::Result;

use crate::run;

pub(crate) fn run(root: &Path) -> Result<()> {
    run::run(
        run::cargo(root).env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--all-features", "--no-deps"]),
        "correct the links and the markup that rustdoc names above",
    )
}
