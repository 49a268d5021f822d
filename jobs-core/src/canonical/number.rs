//! The canonical text of a number: its exact digits.

use crate::key_problem::KeyProblem;

/// The most digits of a number in a key, as it is written.
const MOST_DIGITS: usize = 1000;
/// The largest exponent of a number in a key, and with a minus the smallest. Those of floats are within 324.
const MOST_EXPONENT: i64 = 1000;

/// Writes the number, which is given as valid JSON.
pub(super) fn write(written: &str, out: &mut String) -> Result<(), KeyProblem> {
    let (minus, unsigned) = written.strip_prefix('-').map_or(("", written), |unsigned| ("-", unsigned));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().map_err(|_| KeyProblem::LargeNumber)?;
    if exponent.abs() > MOST_EXPONENT || whole.len() + fraction.len() > MOST_DIGITS {
        return Err(KeyProblem::LargeNumber);
    }
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    // How many of the significant digits are before the point. There are at most `MOST_DIGITS`, so nothing overflows.
    let before = exponent + whole.len() as i64 - (digits.len() - significant.len()) as i64;
    let significant = significant.trim_end_matches('0');
    if significant.is_empty() {
        out.push('0');
        return Ok(());
    }
    out.push_str(minus);
    match usize::try_from(before) {
        Ok(before @ 1..) if before >= significant.len() => {
            out.push_str(significant);
            out.extend(std::iter::repeat_n('0', before - significant.len()));
        }
        Ok(before @ 1..) => {
            out.push_str(&significant[..before]);
            out.push('.');
            out.push_str(&significant[before..]);
        }
        _ => {
            out.push_str("0.");
            out.extend((before..0).map(|_| '0'));
            out.push_str(significant);
        }
    }
    Ok(())
}
