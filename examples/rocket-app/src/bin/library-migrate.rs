//! Like `diesel migration run`, for machines without the Diesel command: applies the library's pending migrations.

use anyhow::{Context as _, anyhow};
use diesel_async::{AsyncConnection as _, AsyncMigrationHarness, AsyncPgConnection};
use diesel_migrations::MigrationHarness as _;
use rocket_app::MIGRATIONS;

// The harness needs a runtime with several threads.
#[rocket::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("set DATABASE_URL, such as postgres://localhost/library")?;
    let mut harness = AsyncMigrationHarness::new(AsyncPgConnection::establish(&url).await?);
    harness.run_pending_migrations(MIGRATIONS).map_err(|error| anyhow!("migrating: {error}"))?;
    Ok(())
}
