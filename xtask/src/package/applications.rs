//! Builds and runs the README's two applications. Their dependencies are the packed files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use cluster::Session;

use super::PACKAGES;
use crate::run::{capture, cargo};

/// The output of the application on SQLite.
const SQLITE_SAYS: &str = "mail v2 to user 7";
/// A program that creates the application's table, and places an order.
const ORDER: &str = r#"use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut conn = AsyncPgConnection::establish(&std::env::var("DATABASE_URL")?).await?;
    conn.batch_execute("create table orders (id bigserial primary key, user_id bigint not null, charged boolean not null default false)").await?;
    my_app::place_order(&mut conn, 7).await?;
    Ok(())
}
"#;
/// How long the worker may take for the job of the order.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn run(root: &Path, packed: &Path, target: &Path) -> Result<()> {
    let readme = fs::read_to_string(packed.join(format!("diesel-jobs-{}/README.md", env!("CARGO_PKG_VERSION"))))?;
    let [postgresql, sqlite] = [0, 1].map(|number| Application { root, packed, target, number, readme: &readme });

    let directory = sqlite.write("first-job", "src/main.rs")?;
    let said = sqlite.cargo(&directory, &["run", "--quiet"], None)?;
    if !said.contains(SQLITE_SAYS) {
        bail!("the README's application on SQLite ran and did not write `{SQLITE_SAYS}` but: {said}");
    }
    println!("the packed application on SQLite wrote: {}", said.trim());

    let directory = postgresql.write("my_app", "src/lib.rs")?;
    fs::create_dir_all(directory.join("src/bin"))?;
    fs::write(directory.join("src/bin/worker.rs"), "diesel_jobs::worker!(my_app);\n")?;
    fs::write(directory.join("src/bin/order.rs"), ORDER)?;
    postgresql.run_on_postgresql(&directory)
}

/// One of the README's applications.
struct Application<'a> {
    root: &'a Path,
    packed: &'a Path,
    target: &'a Path,
    /// Its place among the README's examples.
    number: usize,
    readme: &'a str,
}

impl Application<'_> {
    /// Writes the package, with the README's text in the file `source`. Returns its directory.
    fn write(&self, name: &str, source: &str) -> Result<PathBuf> {
        let dependencies = block(self.readme, "toml", self.number)?;
        let mut manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n{dependencies}\n[patch.crates-io]\n"
        );
        for package in PACKAGES {
            manifest += &format!("{package} = {{ path = \"../{package}-{}\" }}\n", env!("CARGO_PKG_VERSION"));
        }
        let directory = self.packed.join(name);
        fs::create_dir_all(directory.join("src"))?;
        fs::write(directory.join("Cargo.toml"), manifest)?;
        fs::write(directory.join(source), block(self.readme, "rust", self.number)?)?;
        // Use the versions that the workspace is tested with.
        fs::copy(self.root.join("Cargo.lock"), directory.join("Cargo.lock"))?;
        Ok(directory)
    }

    fn cargo(&self, directory: &Path, arguments: &[&str], url: Option<&str>) -> Result<String> {
        let mut command = cargo(directory);
        command.args(arguments).env("CARGO_TARGET_DIR", self.target).env_remove("DATABASE_URL");
        // Nobody debugs it, and it shares no build with the workspace, whose profile leaves this out, too.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.envs(url.map(|url| ("DATABASE_URL", url)));
        capture(&mut command, "make the README's applications work with the packed files")
    }

    /// Migrates, places an order, and runs the worker until the job of the order has completed.
    fn run_on_postgresql(&self, directory: &Path) -> Result<()> {
        let postgres = cluster::ensure()?;
        let session = Session::begin(self.root.join(cluster::TESTS), &postgres)?;
        let name = format!("packed_{}", std::process::id());
        let mut create = Command::new(postgres.bin.join("psql"));
        create.args(["--no-psqlrc", "--quiet", "--command", &format!("create database {name}"), &session.url()]);
        capture(&mut create, "read the server's message above")?;
        let server = session.url();
        let (server, _) = server.rsplit_once('/').context("the server's URL names no database")?;
        let url = format!("{server}/{name}");

        self.cargo(directory, &["run", "--quiet", "--bin", "worker", "--", "migrate"], Some(&url))?;
        self.cargo(directory, &["run", "--quiet", "--bin", "order"], Some(&url))?;
        let worker = self.target.join("debug/worker");
        let worker = |arguments: &[&str]| {
            let mut command = Command::new(&worker);
            command.args(arguments).env("DATABASE_URL", &url);
            command
        };
        let _running = Running(worker(&["run"]).spawn().context("the packed application's worker cannot be started")?);
        let begun = Instant::now();
        loop {
            let listed = capture(&mut worker(&["list", "--state", "completed"]), "read the worker's message above")?;
            if listed.contains("charge") {
                println!("the packed application on PostgreSQL completed:\n{}", listed.trim_end());
                return Ok(());
            }
            if begun.elapsed() > LIMIT {
                bail!("the worker of the README's application did not complete its job within {LIMIT:?}:\n{listed}");
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// A worker. It is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the example with this number in this language, from 0.
fn block<'a>(page: &'a str, language: &str, number: usize) -> Result<&'a str> {
    let begin = format!("\n```{language}\n");
    let rest = page.split(&begin).nth(number + 1);
    let rest = rest.with_context(|| format!("the README has no example {} in {language}", number + 1))?;
    Ok(rest.split_once("\n```").map_or(rest, |(block, _)| block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_begins_with_two_applications() {
        let readme = include_str!("../../../README.md");
        for (number, main) in [(0, "pub async fn place_order"), (1, "fn main()")] {
            assert!(block(readme, "toml", number).unwrap().contains("diesel-jobs = "));
            assert!(block(readme, "rust", number).unwrap().contains(main));
        }
    }
}
