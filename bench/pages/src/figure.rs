//! The measurements of one page or command.

use serde_json::json;

/// The measurements of one page or command. Each run of it takes a time.
pub(crate) struct Figure {
    pub(crate) name: String,
    /// The first run, in milliseconds. The database has not read this part of its files before.
    pub(crate) first: f64,
    /// All other runs, in milliseconds, in ascending order.
    pub(crate) times: Vec<f64>,
    /// The limit for the 95th percentile, in milliseconds.
    pub(crate) most: f64,
    /// The number of statements of one run. `None`: another process sends them.
    pub(crate) statements: Option<u64>,
    pub(crate) bytes: usize,
}

impl Figure {
    /// The quantile of the times, such as 0.95.
    fn quantile(&self, part: f64) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "there are at most some thousand times, and the part is between 0 and 1"
        )]
        let at = (self.times.len() as f64 * part).ceil() as usize;
        self.times.get(at.max(1) - 1).copied().unwrap_or(self.first)
    }

    /// Whether the 95th percentile is within its limit.
    pub(crate) fn holds(&self) -> bool {
        self.quantile(0.95) <= self.most
    }

    pub(crate) fn json(&self) -> String {
        json!({
            "name": self.name,
            "first_ms": self.first,
            "median_ms": self.quantile(0.5),
            "p95_ms": self.quantile(0.95),
            "max_ms": self.quantile(1.0),
            "most_ms": self.most,
            "holds": self.holds(),
            "statements": self.statements,
            "bytes": self.bytes,
        })
        .to_string()
    }

    fn row(&self) -> [String; 8] {
        let ms = |value: f64| format!("{value:.1}");
        [
            self.name.clone(),
            self.statements.map(|statements| statements.to_string()).unwrap_or_default(),
            format!("{:.0}", f64::from(u32::try_from(self.bytes).unwrap_or(u32::MAX)) / 1024.0),
            ms(self.first),
            ms(self.quantile(0.5)),
            ms(self.quantile(0.95)),
            ms(self.quantile(1.0)),
            if self.holds() { String::new() } else { format!("more than {} ms", self.most) },
        ]
    }
}

/// A table with aligned columns.
pub(crate) fn table(figures: &[Figure]) -> String {
    let head = ["", "statements", "KiB", "first ms", "median", "p95", "max", ""].map(str::to_owned);
    let rows: Vec<_> = [head].into_iter().chain(figures.iter().map(Figure::row)).collect();
    let widths: Vec<usize> =
        (0..8).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            1..=6 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(times: &[f64]) -> Figure {
        Figure { name: "x".into(), first: 90.0, times: times.into(), most: 50.0, statements: Some(3), bytes: 2048 }
    }

    #[test]
    fn a_figure_holds_if_95_of_100_times_do() {
        let mut times = vec![10.0; 19];
        times.push(80.0);
        assert!(figure(&times).holds());
        times[18] = 80.0;
        assert!(!figure(&times).holds());
        // Without a second time the first one counts.
        assert!(!figure(&[]).holds());
    }

    #[test]
    fn the_table_is_aligned() {
        let text = table(&[figure(&[1.0, 2.0, 60.0])]);
        assert!(text.ends_with("x           3    2      90.0     2.0  60.0  60.0  more than 50 ms"), "{text}");
    }
}
