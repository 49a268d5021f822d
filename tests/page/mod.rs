//! A page of the documentation, and the outputs that it shows. Several test programs include this module by its path.
//!
//! A `console` block has commands, each after `$ `, and their outputs. An `output` block has an output without a
//! command. A test runs each command and compares its output with the page. `UPDATE_EXPECTED=1` writes the real outputs
//! into the page. A block of another language has no output.

mod compared;

use std::fs;
use std::path::{Path, PathBuf};

/// A part of a page.
#[derive(Debug)]
enum Part {
    Text(String),
    /// A command without the prompt, and its output. In an `output` block the command is empty.
    Shown(String, String),
}

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    path: PathBuf,
    parts: Vec<Part>,
}

/// Whether the test shall write the page.
pub(crate) fn is_writing() -> bool {
    std::env::var_os("UPDATE_EXPECTED").is_some()
}

/// The directory of the workspace.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|dir| dir.join("RELIABILITY.md").exists()).expect("the tests are in the workspace")
}

impl Page {
    /// Reads a page of the workspace.
    pub(crate) fn read(path: &str) -> Self {
        let path = root().join(path);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, parts: parts(&text) }
    }

    /// Compares each output with the real one, which `run` returns for the command.
    pub(crate) fn compare(self, mut run: impl FnMut(&str) -> String) {
        let (mut real, mut differences) = (String::new(), Vec::new());
        for part in self.parts {
            let (command, shown) = match part {
                Part::Text(text) => {
                    real.push_str(&text);
                    continue;
                }
                Part::Shown(command, shown) => (command, shown),
            };
            let mut output = run(&command);
            if !output.is_empty() && !output.ends_with('\n') {
                output.push('\n');
            }
            if !compared::are_same(&command, &shown, &output) {
                differences.push(format!("$ {command}\n{output}-- and the page shows:\n{shown}"));
            }
            if !command.is_empty() {
                real.push_str(&format!("$ {command}\n"));
            }
            real.push_str(&compared::cut_as(&shown, &output));
        }
        if is_writing() {
            fs::write(&self.path, real).unwrap();
            return;
        }
        let differences = differences.join("\n");
        assert!(
            differences.is_empty(),
            "UPDATE_EXPECTED=1 writes the real outputs into {}:\n{differences}",
            self.path.display()
        );
    }
}

fn parts(page: &str) -> Vec<Part> {
    let (mut parts, mut block) = (Vec::new(), None);
    for line in page.split_inclusive('\n') {
        let fence = line.trim().strip_prefix("```");
        match (block, fence) {
            (None, Some(language)) => block = Some(language),
            (Some(_), Some(_)) => block = None,
            _ => {}
        }
        match (block, line.strip_prefix("$ "), parts.last_mut()) {
            (Some("console"), Some(command), _) => {
                parts.push(Part::Shown(command.trim_end().to_owned(), String::new()));
            }
            (Some("console" | "output"), _, Some(Part::Shown(_, output))) if fence.is_none() => output.push_str(line),
            (Some("output"), _, _) if fence.is_none() => parts.push(Part::Shown(String::new(), line.to_owned())),
            (_, _, Some(Part::Text(text))) => text.push_str(line),
            _ => parts.push(Part::Text(line.to_owned())),
        }
    }
    parts
}
