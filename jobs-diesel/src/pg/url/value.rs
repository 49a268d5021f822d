//! The value of a parameter of a database URL.

use std::str::FromStr;
use std::time::Duration;

/// What a value may be, for the error.
pub(super) type Allowed = &'static str;

pub(super) fn read<T: FromStr>(value: &str, allowed: Allowed) -> Result<T, Allowed> {
    value.parse().map_err(|_| allowed)
}

/// `None` for 0, with which the system decides, as for libpq.
pub(super) fn seconds(value: &str, allowed: Allowed) -> Result<Option<Duration>, Allowed> {
    let seconds: u32 = read(value, allowed)?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds.into())))
}

pub(super) fn one_of<T>(
    value: &str,
    known: impl IntoIterator<Item = (&'static str, T)>,
    allowed: Allowed,
) -> Result<T, Allowed> {
    known.into_iter().find(|(name, _)| *name == value).map(|(_, meaning)| meaning).ok_or(allowed)
}
