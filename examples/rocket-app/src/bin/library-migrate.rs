//! Applies the migrations of the jobs, and then those of the library. Like `worker migrate` and `diesel migration run`,
//! in one program.

use anyhow::{Context as _, anyhow};
use diesel_async::{AsyncConnection as _, AsyncMigrationHarness, AsyncPgConnection};
use diesel_migrations::MigrationHarness as _;
use rocket_app::MIGRATIONS;

// The harness needs a runtime with several threads.
#[rocket::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("set DATABASE_URL, such as postgres://localhost/library")?;
    let mut conn = AsyncPgConnection::establish(&url).await?;
    diesel_jobs::migrate(&mut conn).await?;
    let mut harness = AsyncMigrationHarness::new(conn);
    harness.run_pending_migrations(MIGRATIONS).map_err(|error| anyhow!("migrating: {error}"))?;
    Ok(())
}
