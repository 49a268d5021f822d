//! The table of rates. It has a line for each key, because each key gets its own tokens.

use chrono::Utc;
use diesel_jobs_core::storage::{MOST_LIMITS, RateKey, key_text};

use crate::cli::output::{self, Align, Table};

/// What `limits` prints after the limits. It is empty if no job waits for a token.
pub(super) fn human(rates: &[RateKey]) -> String {
    if rates.is_empty() {
        return String::new();
    }
    let titles = [
        ("RATE", Align::Left),
        ("KEY", Align::Left),
        ("STARTS", Align::Left),
        ("HELD", Align::Right),
        ("OLDEST DUE", Align::Left),
        ("NEXT TOKEN", Align::Left),
    ];
    let mut table = Table::new(&titles);
    for rate in rates {
        table.row([
            rate.name.clone(),
            key_text(&rate.key),
            rate.starts(),
            rate.held.to_string(),
            rate.oldest.map(output::time).unwrap_or_default(),
            rate.next_token.filter(|at| *at > Utc::now()).map_or_else(|| "now".to_owned(), output::time),
        ]);
    }
    let more = if rates.len() < MOST_LIMITS { "" } else { "there may be more rates that hold jobs back\n" };
    format!("\n{}{more}", table.render())
}
