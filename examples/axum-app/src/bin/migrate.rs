//! Like `diesel migration run`, for machines without the Diesel command: applies the shop's pending migrations.

use std::io::IsTerminal as _;

use anyhow::anyhow;
use axum_app::{MIGRATIONS, database_url};
use diesel_async::{AsyncConnection as _, AsyncMigrationHarness, AsyncPgConnection};
use diesel_migrations::MigrationHarness as _;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).init();
    let conn = AsyncPgConnection::establish(&database_url()?).await?;
    let mut harness = AsyncMigrationHarness::new(conn);
    let applied = harness.run_pending_migrations(MIGRATIONS).map_err(|error| anyhow!("migrating: {error}"))?;
    for version in applied {
        tracing::info!(%version, "applied");
    }
    Ok(())
}
