//! The settings in the environment.

use std::env;
use std::time::Duration;

use crate::web::Operators;

/// The settings of the web server.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "the URL may hold a password")]
pub struct Settings {
    /// `DATABASE_URL`.
    pub database_url: String,
    /// `BIND`: the address to listen at. Default: `127.0.0.1:3000`.
    pub bind: String,
    /// `REVIEW_AFTER_SECONDS`: how long after an order its customer is asked for a review. Default: a week.
    pub review_after: Duration,
    /// `PROXY_SECRET` and `ADMINS` (names, separated by commas): who may use the dashboard. Without a secret, all
    /// requests are refused.
    pub operators: Option<Operators>,
}

/// A variable that is missing or invalid.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// `DATABASE_URL` is not set.
    #[error("DATABASE_URL is not set; set it to the shop's database, such as postgres://localhost/shop")]
    NoDatabase,
    /// `REVIEW_AFTER_SECONDS` is not a number of seconds.
    #[error("REVIEW_AFTER_SECONDS is not a number of seconds; write a whole number, such as 604800")]
    ReviewAfter,
}

impl Settings {
    const BIND: &str = "127.0.0.1:3000";
    const REVIEW_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Reads all settings.
    pub fn from_env() -> Result<Self, SettingsError> {
        let review_after = match env::var("REVIEW_AFTER_SECONDS") {
            Ok(seconds) => Duration::from_secs(seconds.parse().map_err(|_| SettingsError::ReviewAfter)?),
            Err(_) => Self::REVIEW_AFTER,
        };
        let bind = env::var("BIND").unwrap_or_else(|_| Self::BIND.to_owned());
        let operators = env::var("PROXY_SECRET").ok().filter(|secret| !secret.is_empty()).map(|proxy_secret| {
            let admins = env::var("ADMINS").unwrap_or_default();
            Operators { proxy_secret, admins: admins.split(',').map(|name| name.trim().to_owned()).collect() }
        });
        Ok(Self { database_url: database_url()?, bind, review_after, operators })
    }
}

/// The URL of the database that the web server, the worker and the mailer share.
pub fn database_url() -> Result<String, SettingsError> {
    env::var("DATABASE_URL").map_err(|_| SettingsError::NoDatabase)
}
