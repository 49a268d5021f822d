//! Installs missing packages, mainly PostgreSQL and libpq, with the machine's package manager.

use std::process::Command;

use anyhow::{Result, bail};

use crate::owner::are_we_root;
use crate::run::{run_with_retries, succeeds};

pub(crate) const ADVICE: &str = "install a PostgreSQL server (initdb, pg_ctl, postgres) and libpq for linking, \
    e.g. `apt-get install postgresql libpq-dev`, `dnf install postgresql-server libpq-devel` or \
    `brew install postgresql@17`; if they are in an unusual place, set PG_BIN to the server's directory";

/// A package manager, whether it needs root, and its commands.
pub(crate) type Manager = (&'static str, bool, &'static [&'static str]);

const POSTGRES: &[Manager] = &[
    ("apt-get", true, &["apt-get update", "apt-get install -y --no-install-recommends postgresql libpq-dev"]),
    ("dnf", true, &["dnf install -y postgresql-server libpq-devel"]),
    ("brew", false, &["brew install postgresql@17"]),
];

pub(crate) fn run() -> Result<()> {
    packages("PostgreSQL's server or libpq", POSTGRES, ADVICE)
}

/// Installs what is missing with the first of these package managers that exists.
pub(crate) fn packages(missing: &str, managers: &[Manager], advice: &str) -> Result<()> {
    eprintln!("{missing} is missing on this machine: installing");
    let exists = |program: &str| succeeds(Command::new(program).arg("--version"));
    let Some(commands) = plan(managers, exists, are_we_root()?) else {
        bail!("{missing} is missing, and there is no way to install it here\n  to fix: {advice}");
    };
    for words in commands {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        run_with_retries(&mut command, advice)?;
    }
    Ok(())
}

/// Returns the commands of the first package manager that exists. Returns `None` if there is none, or if it needs root
/// and there is no `sudo`.
fn plan(managers: &[Manager], exists: impl Fn(&str) -> bool, root: bool) -> Option<Vec<Vec<String>>> {
    let (_, needs_root, lines) = managers.iter().find(|(program, ..)| exists(program))?;
    let sudo = *needs_root && !root;
    if sudo && !exists("sudo") {
        return None;
    }
    let words = |line: &&str| sudo.then_some("sudo").into_iter().chain(line.split(' ')).map(String::from).collect();
    Some(lines.iter().map(words).collect())
}

#[cfg(test)]
mod tests {
    use super::{POSTGRES, plan};

    #[test]
    fn root_installs_directly_and_others_through_sudo() {
        let apt = |program: &str| ["apt-get", "sudo"].contains(&program);
        assert_eq!(plan(POSTGRES, apt, true).unwrap()[0].join(" "), "apt-get update");
        assert_eq!(plan(POSTGRES, apt, false).unwrap()[0].join(" "), "sudo apt-get update");
        assert_eq!(plan(POSTGRES, |program| program == "brew", false).unwrap()[0][0], "brew");
    }

    #[test]
    fn without_a_usable_package_manager_nothing_is_tried() {
        assert!(plan(POSTGRES, |program| program == "apt-get", false).is_none(), "no sudo");
        assert!(plan(POSTGRES, |_| false, true).is_none(), "no package manager");
    }
}
