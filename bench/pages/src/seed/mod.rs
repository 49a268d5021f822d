//! The statements that fill a database. They are SQL, because they make millions of rows.
//!
//! Ended jobs have the ids 1 to `:finished`, waiting ones the ids after that.

/// The statements, with the numbers of jobs in their places.
fn statements(script: &str, finished: u64, waiting: u64) -> Vec<String> {
    let script = script.replace(":finished", &finished.to_string()).replace(":waiting", &waiting.to_string());
    script.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn postgres(finished: u64, waiting: u64) -> Vec<String> {
    statements(include_str!("postgres.sql"), finished, waiting)
}

pub(crate) fn sqlite(finished: u64, waiting: u64) -> Vec<String> {
    statements(include_str!("sqlite.sql"), finished, waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_are_in_their_places() {
        for statements in [postgres(7, 9), sqlite(7, 9)] {
            assert!(statements.len() > 8);
            assert!(
                statements.iter().all(|statement| !statement.contains(":finished") && !statement.contains(":waiting"))
            );
        }
    }
}
