//! `cargo xtask pages`: measures each page of the dashboard and each command that people wait for, beside millions of
//! jobs.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use cluster::Session;

use crate::run::{cargo, run as execute};

#[derive(Args)]
pub(crate) struct Options {
    /// `postgres` or `sqlite`
    #[arg(default_value = "postgres", value_parser = ["postgres", "sqlite"])]
    database: String,
    /// Build without optimisation. The times of the database are the same, those of the program are longer
    #[arg(long)]
    debug: bool,
    /// Passed on to `jobs-pages`, e.g. `-- --finished 50000 --waiting 10000 --only overview --json`
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let postgres = cluster::ensure()?;
    let program = |verb: &[&str]| {
        let mut command = cargo(root);
        command.args(verb).args(["--package", "jobs-pages"]).args((!options.debug).then_some("--release"));
        if let Some(dir) = &postgres.libpq {
            command.env("PQ_LIB_DIR", dir);
        }
        command
    };
    execute(&mut program(&["build", "--bins"]), "correct the errors that the compiler names above")?;
    let session = Session::begin(root.join(cluster::BENCH), &postgres)?;
    let mut command = program(&["run", "--quiet", "--bin", "jobs-pages"]);
    command.arg("--").arg(&options.database).args(&options.arguments).env("DATABASE_URL", session.url());
    // The file of SQLite is written below the working directory.
    command.current_dir(root.join(cluster::BENCH));
    execute(&mut command, "read the error above; the table shows what took too long")?;
    session.check()
}
