//! The credentials that an application gives for each new connection.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The function that is asked for each new connection.
pub(crate) type AskCredentials = Arc<dyn Fn() -> Result<Credentials, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// The password of new connections, and the user if it is not that of the URL.
/// [`DatabaseBuilder::credentials`](crate::DatabaseBuilder::credentials) has an example.
#[derive(Clone)]
pub struct Credentials {
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite has no credentials"))]
    user: Option<String>,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite has no credentials"))]
    password: String,
}

impl Credentials {
    /// A password or a token, for the user of the URL.
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Sets the user, for systems that create a new user together with each password.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn put_into(self, config: &mut tokio_postgres::Config) {
        if let Some(user) = self.user {
            config.user(user);
        }
        config.password(self.password);
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}
