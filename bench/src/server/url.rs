//! URLs of other databases on the same server.

use anyhow::{Result, bail};

/// Returns the URL with the name of another database.
pub(super) fn with_database(url: &str, name: &str) -> Result<String> {
    let (before, options) = url.split_once('?').map_or((url, None), |(before, options)| (before, Some(options)));
    let Some((scheme, rest)) = before.split_once("://") else {
        bail!("DATABASE_URL is not a URL; write postgres://user@host:5432/postgres");
    };
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let options = options.map(|options| format!("?{options}")).unwrap_or_default();
    Ok(format!("{scheme}://{authority}/{name}{options}"))
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn only_the_database_name_changes() {
        for (url, expected) in [
            ("postgres://me:pw@host:5433/app", "postgres://me:pw@host:5433/b"),
            ("postgres://host", "postgres://host/b"),
            ("postgres://host/app?application_name=x/y", "postgres://host/b?application_name=x/y"),
        ] {
            assert_eq!(with_database(url, "b").unwrap(), expected);
        }
        assert!(with_database("host=localhost", "b").is_err());
    }
}
