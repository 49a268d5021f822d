//! Runs other programs. Each is printed before it runs, and a failure says how to fix it.

use std::{
    path::Path,
    process::{Command, Output},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// Returns a command for `cargo` in the workspace, in the version that runs this program.
pub fn cargo(root: &Path) -> Command {
    let mut command = command(Path::new(&std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())));
    command.current_dir(root);
    command
}

/// Returns a command for a program, without the variables by which cargo describes this program's package. The build
/// script of `ring` runs again when they change, and everything that depends on `ring` would be compiled again.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| describes_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    without_libpq(&mut command);
    command
}

/// Removes the developer's variables of libpq, which would complete or change the URLs of the tests.
pub fn without_libpq(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_libpq(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

/// Whether libpq may read this variable. The names of this project's own tools begin with `PG_`.
fn is_of_libpq(variable: &str) -> bool {
    variable.starts_with("PG") && !variable.starts_with("PG_")
}

/// Whether cargo describes the package of a program in this variable.
fn describes_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_PRIMARY_"].iter().any(|start| variable.starts_with(start))
}

/// Runs a command whose output is shown on the terminal.
pub fn run(command: &mut Command, fix: &str) -> Result<()> {
    let line = announce(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`\n  to fix: {fix}"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})\n  to fix: {fix}");
    }
    Ok(())
}

/// Runs a command that needs the network, up to three times.
pub fn run_with_retries(command: &mut Command, fix: &str) -> Result<()> {
    const TRIES: u32 = 3;
    const PAUSE: Duration = Duration::from_secs(5);
    for _ in 1..TRIES {
        match run(command, fix) {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("{error:#}\nonce more in {PAUSE:?}"),
        }
        thread::sleep(PAUSE);
    }
    run(command, fix)
}

/// Runs a command whose output is shown only if it fails. Returns its standard output.
pub fn capture(command: &mut Command, fix: &str) -> Result<String> {
    announce(command);
    capture_quietly(command, fix)
}

/// The same, for a command that runs too often to be printed each time.
pub fn capture_quietly(command: &mut Command, fix: &str) -> Result<String> {
    let line = render(command);
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot start `{line}`\n  to fix: {fix}"))?;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    if !status.success() {
        bail!("`{line}` failed ({status})\n{stdout}{}  to fix: {fix}", String::from_utf8_lossy(&stderr));
    }
    Ok(stdout)
}

/// Whether a command can be started and succeeds. Its output is ignored.
pub fn succeeds(command: &mut Command) -> bool {
    announce(command);
    command.output().is_ok_and(|output| output.status.success())
}

fn announce(command: &Command) -> String {
    let line = render(command);
    eprintln!("$ {line}");
    line
}

/// Returns the command as it would be typed: the variables that are set, the program's name, and its arguments.
fn render(command: &Command) -> String {
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quote(&value?.to_string_lossy()))));
    let program = command.get_program().to_string_lossy();
    let program =
        if command.get_program() == std::env::var_os("CARGO").unwrap_or_default() { "cargo".into() } else { program };
    set.chain([quote(&program)])
        .chain(command.get_args().map(|argument| quote(&argument.to_string_lossy())))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_printed_so_that_it_can_be_pasted() {
        let mut command = Command::new("psql");
        command.env("PGUSER", "jobs").env_remove("PGHOST").args(["-c", "select 'a'"]);
        assert_eq!(render(&command), r"PGUSER=jobs psql -c 'select '\''a'\'''");
    }

    #[test]
    fn cargo_is_started_as_if_by_hand() {
        // Cargo describes the package of this test.
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        let command = cargo(Path::new("/"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_")) {
            assert!(command.get_envs().any(|(removed, value)| removed == name && value.is_none()), "{name:?}");
        }
        assert!(!describes_package("CARGO_HOME") && !describes_package("CARGO_TARGET_DIR"));
        assert!(is_of_libpq("PGHOST") && is_of_libpq("PGCONNECT_TIMEOUT") && !is_of_libpq("PG_BIN"));
    }

    #[test]
    fn a_failure_names_the_command_and_the_fix() {
        let error = capture(Command::new("sh").args(["-c", "echo broken >&2; exit 3"]), "mend it").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("broken") && text.contains("mend it"), "{text}");
    }
}
