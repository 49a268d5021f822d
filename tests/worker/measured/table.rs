//! Prints tables on standard error, and makes measurements run one at a time.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other measurement runs. The guard keeps others out.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A measurement that failed does not prevent the next one.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints rows of cells. The first row names the columns.
pub(crate) fn print<const N: usize>(title: &str, rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = format!("\n{title}\n");
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            // Names are aligned left, figures right.
            text += &if at == 0 { format!("  {cell:<0$}", widths[at]) } else { format!("  {cell:>0$}", widths[at]) };
        }
        text.push('\n');
    }
    // Written at once, and not by `eprintln!`, which the test harness captures.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Makes one row of anything that implements `Display`.
macro_rules! row {
    ($($cell:expr),+ $(,)?) => { [$($cell.to_string()),+] };
}

pub(crate) use row;

/// Makes one `#[test]` per function, for each of these types of database. Each waits until it is alone.
macro_rules! alone_on {
    ($($module:ident by $db:ident { $($claim:ident),+ $(,)? })+) => {
        $(mod $module {
            $(#[test] fn $claim() {
                let _alone = crate::table::alone();
                support::run(support::Db::$db(), super::$claim);
            })+
        })+
    };
}
pub(crate) use alone_on;
