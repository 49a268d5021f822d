//! Tables on standard error, and the turn to make one.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whoever measures, measures alone.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A measurement that failed does not spoil the next one.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows of cells; the first row names the columns.
pub(crate) fn print<const N: usize>(title: &str, rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = format!("\n{title}\n");
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            // Names to the left, figures to the right.
            text += &if at == 0 { format!("  {cell:<0$}", widths[at]) } else { format!("  {cell:>0$}", widths[at]) };
        }
        text.push('\n');
    }
    // Written as a whole, and not by `eprintln!`, which the harness keeps for itself.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// One row out of anything that can be shown.
macro_rules! row {
    ($($cell:expr),+ $(,)?) => { [$($cell.to_string()),+] };
}

pub(crate) use row;
