//! `cargo xtask tidy`: checks the house rules that no compiler checks, on the files in git.

mod circles;
mod clocks;
mod enums;
mod file;
mod links;
mod root;
mod rules;
mod widths;

use std::{fs, path::Path, process::Command};

use anyhow::{Result, bail};

use crate::run::capture;
use file::File;

pub(crate) fn run(root: &Path) -> Result<()> {
    let files = tracked(root)?;
    let complaints: Vec<String> = rules::ALL.iter().flat_map(|rule| rule(&files)).collect();
    if complaints.is_empty() {
        eprintln!("tidy: {} files keep {} rules", files.len(), rules::ALL.len());
        return Ok(());
    }
    bail!("the house rules are broken {} times\n{}", complaints.len(), complaints.join("\n"));
}

/// Returns the files and symlinks in git that exist. A file that is no text has an empty one. A file that was deleted
/// without a commit is left out.
fn tracked(root: &Path) -> Result<Vec<File>> {
    let list = capture(Command::new("git").current_dir(root).args(["ls-files", "-z"]), "run this in a git clone")?;
    let read = |path: &str| {
        let full = root.join(path);
        let symlink = full.is_symlink();
        let text = if symlink {
            fs::read_link(&full).ok()?.to_str()?.into()
        } else {
            String::from_utf8(fs::read(&full).ok()?).unwrap_or_default()
        };
        Some(File { path: path.into(), text, symlink })
    };
    Ok(list.split_terminator('\0').filter_map(read).collect())
}
