//! A test program with everything that cargo starts it with. Cargo passes each one to `cargo xtask record`, which
//! writes it to a file and does not run it.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use clap::Args;
use cluster::{Postgres, Session};
use serde::{Deserialize, Serialize};

#[derive(Args)]
pub(crate) struct Record {
    /// The file that gets the program, as one line of JSON
    into: PathBuf,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// A test program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The package and the target, such as `jobs-worker-tests worker`.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: PathBuf,
    /// The variables that cargo sets, and those of a server of its own.
    pub(crate) variables: Vec<(String, String)>,
}

/// Appends the program to the file.
pub(crate) fn record(Record { into, command }: &Record) -> Result<()> {
    let (file, arguments) = command.split_first().context("no program is given")?;
    // Names and values that are not UTF-8 are not cargo's.
    let variables: Vec<_> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_set_by_cargo(name))
        .collect();
    let directory = env::current_dir().context("cannot find the directory of the test program")?;
    let (file, arguments) = (PathBuf::from(file), arguments.to_vec());
    let program = Program { name: name(&file, &variables), file, arguments, directory, variables };
    let line = serde_json::to_string(&program)? + "\n";
    let mut into = OpenOptions::new().create(true).append(true).open(into).context("cannot note the test program")?;
    into.write_all(line.as_bytes()).context("cannot note the test program")
}

fn name(file: &Path, variables: &[(String, String)]) -> String {
    let package = variables.iter().find(|(name, _)| name == "CARGO_PKG_NAME").map_or("", |(_, value)| value);
    let file = file.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo appends a hash to the name of the target.
    let target = file.rsplit_once('-').map_or(&*file, |(target, _)| target);
    format!("{package} {target}").trim_start().to_owned()
}

/// Whether cargo sets the variable for the programs that it starts. Its tokens are the user's.
fn is_set_by_cargo(name: &str) -> bool {
    let own = name == "CARGO" || name == "OUT_DIR" || name.ends_with("_LIBRARY_PATH");
    own || ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_", "CARGO_PRIMARY_"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Records the programs that cargo would run.
pub(super) struct Recorder {
    /// The file of this program.
    own: PathBuf,
    into: PathBuf,
}

impl Recorder {
    pub(super) fn new(root: &Path) -> Result<Self> {
        let own = env::current_exe().context("cannot find this program's own file")?;
        let into = root.join("target/test-programs");
        if into.exists() {
            // An interrupted run left it behind.
            fs::remove_file(&into).with_context(|| format!("cannot remove {}", into.display()))?;
        }
        Ok(Self { own, into })
    }

    /// The setting by which cargo passes the test programs to this one.
    pub(super) fn setting(&self) -> Result<String> {
        // A list in JSON is also one in TOML.
        let runner = serde_json::to_string(&[&*self.own, Path::new("record"), &*self.into])?;
        Ok(format!("target.'cfg(all())'.runner = {runner}"))
    }

    /// Returns the programs in the order of their recording, and forgets them.
    pub(super) fn recorded(&self) -> Result<Vec<Program>> {
        if !self.into.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&self.into).context("cannot read the noted test programs")?;
        fs::remove_file(&self.into).context("cannot remove the noted test programs")?;
        text.lines().map(|line| serde_json::from_str(line).with_context(|| format!("cannot read {line}"))).collect()
    }
}

impl Program {
    /// Whether its target has this name.
    pub(super) fn is(&self, target: &str) -> bool {
        self.name.rsplit_once(' ').is_some_and(|(_, own)| own == target)
    }

    /// The same program, with this server.
    pub(crate) fn on(mut self, postgres: &Postgres, session: &Session) -> Self {
        let variables = [
            ("JOBS_TEST_DATABASE_URL", session.url()),
            ("JOBS_TEST_CA", session.ca().display().to_string()),
            ("JOBS_TEST_PG_BIN", postgres.bin.display().to_string()),
        ];
        self.variables.extend(variables.map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// The same program, for this test alone.
    pub(super) fn only(&self, test: &str) -> Self {
        let arguments = ["--exact", test].map(str::to_owned);
        // The run's own filters are names of no test, so with this option they select nothing.
        Self { arguments: [&*self.arguments, &arguments].concat(), ..self.clone() }
    }

    /// The command that runs it. Its own variables replace those that `prepare` sets.
    pub(super) fn command(&self, prepare: &dyn Fn(&mut Command)) -> Command {
        let mut command = cluster::run::command(&self.file);
        command.args(&self.arguments).current_dir(&self.directory);
        prepare(&mut command);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_once() {
        let into = env::temp_dir().join(format!("jobs-xtask-recorded-{}", std::process::id()));
        let recorder = Recorder { own: PathBuf::new(), into: into.clone() };
        assert!(recorder.recorded().unwrap().is_empty());
        for name in ["first", "second"] {
            let command = ["/deps/conformance-0a1b2c", name, "--nocapture"].map(String::from).to_vec();
            record(&Record { into: into.clone(), command }).unwrap();
        }
        let programs = recorder.recorded().unwrap();
        assert!(!into.exists());
        let [first, second] = programs.as_slice() else { panic!("{programs:?}") };
        assert_eq!(first.arguments, ["first", "--nocapture"]);
        assert_eq!(second.arguments, ["second", "--nocapture"]);
        assert_eq!(first.directory, env::current_dir().unwrap());
        // Cargo has set the variables of this test program, too.
        assert_eq!(first.name, "xtask conformance");
    }

    #[test]
    fn only_variables_of_cargo_are_recorded() {
        for name in ["CARGO", "CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "LD_LIBRARY_PATH", "OUT_DIR"] {
            assert!(is_set_by_cargo(name), "{name}");
        }
        for name in ["PATH", "CARGO_REGISTRY_TOKEN", "CARGO_REGISTRIES_OWN_TOKEN", "DATABASE_URL", "CARGO_HOME"] {
            assert!(!is_set_by_cargo(name), "{name}");
        }
    }
}
