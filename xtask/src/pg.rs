//! `cargo xtask pg start|stop|url`: controls the tests' PostgreSQL, for people who inspect it or run tests by hand.

use std::path::Path;

use anyhow::{Result, bail};
use clap::Subcommand;
use cluster::{Cluster, Server};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Start the tests' PostgreSQL if it does not run, leave it running, and print its URL
    Start,
    /// Stop the tests' PostgreSQL
    Stop,
    /// Print the URL of the tests' PostgreSQL, if it runs
    Url,
}

pub(crate) fn run(root: &Path, verb: &Verb) -> Result<()> {
    let postgres = match verb {
        Verb::Start => cluster::ensure()?,
        Verb::Stop | Verb::Url => cluster::find()?,
    };
    let cluster = Cluster::open(root.join(cluster::TESTS), &postgres)?;
    match verb {
        Verb::Start => {
            let port = cluster.start("")?;
            cluster.keep(true)?;
            println!("{}", Server::url(port));
        }
        Verb::Stop => {
            cluster.keep(false)?;
            if !cluster.stop()? {
                bail!("a running `cargo xtask test` uses it, and will stop it when it ends");
            }
        }
        Verb::Url => match cluster.server().running()? {
            Some(port) => println!("{}", Server::url(port)),
            None => bail!("PostgreSQL is not running\n  to fix: cargo xtask pg start"),
        },
    }
    Ok(())
}
