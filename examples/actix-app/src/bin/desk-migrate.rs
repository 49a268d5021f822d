//! Applies the migrations of the jobs, and then those of the desk. Like `worker migrate` and `diesel migration run`, in
//! one program.

use actix_app::MIGRATIONS;
use anyhow::{Context as _, anyhow};
use diesel::{Connection as _, PgConnection};
use diesel_migrations::MigrationHarness as _;

fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("set DATABASE_URL, such as postgres://localhost/desk")?;
    let mut conn = PgConnection::establish(&url)?;
    diesel_jobs::migrate(&mut conn)?;
    conn.run_pending_migrations(MIGRATIONS).map_err(|error| anyhow!("migrating: {error}"))?;
    Ok(())
}
