//! Runs the benchmark programs and stores their output.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result};
use cluster::{Postgres, Session};

use crate::run::{cargo, run as execute};

/// The comparison with other job queues is a separate workspace, so that other builds do not compile those queues.
const PEERS: &str = "bench/peers/Cargo.toml";
const FIX: &str = "read the error above; lines measured so far can be used with: cargo xtask bench --from FILE";

/// Runs these measures, or all, and writes the results to `file` as JSON lines.
pub(super) fn run(root: &Path, measures: &[String], quick: bool, file: &Path) -> Result<()> {
    let own: Vec<&str> = match measures {
        [] => vec!["all"],
        some => some.iter().map(String::as_str).filter(|measure| *measure != "peers").collect(),
    };
    let peers = (measures.is_empty() && root.join(PEERS).exists()) || measures.iter().any(|measure| measure == "peers");
    let postgres = cluster::ensure()?;

    // Everything is compiled first: a compiler that runs during a measure would distort it.
    let fix = "correct the errors that the compiler names above";
    execute(&mut program(root, &postgres, &["build", "--release", "-p", "jobs-bench"]), fix)?;
    if peers {
        execute(&mut program(root, &postgres, &["build", "--release", "--locked", "--manifest-path", PEERS]), fix)?;
    }

    let session = Session::begin(root.join(cluster::BENCH), &postgres)?;
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    let lines = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    let measured = |command: &mut Command| {
        session.check()?;
        execute(command.env("DATABASE_URL", session.url()).stdout(lines.try_clone()?), FIX)
    };
    for measure in own {
        let mut command = program(root, &postgres, &["run", "--quiet", "--release", "-p", "jobs-bench", "--", measure]);
        command.arg("--json");
        if quick {
            command.args(["--quick", "--runs", "1"]);
        }
        measured(&mut command)?;
    }
    if peers {
        let mut command = program(
            root,
            &postgres,
            &["run", "--quiet", "--release", "--locked", "--manifest-path", PEERS, "--", "all"],
        );
        command.arg("--json");
        if quick {
            command.args(["--n", "10000", "--seconds", "6", "--runs", "1"]);
        }
        measured(&mut command)?;
    }
    eprintln!("the lines are in {}", file.display());
    session.check()
}

fn program(root: &Path, postgres: &Postgres, arguments: &[&str]) -> Command {
    let mut command = cargo(root);
    command.args(arguments);
    if let Some(dir) = &postgres.libpq {
        command.env("PQ_LIB_DIR", dir);
    }
    command
}
