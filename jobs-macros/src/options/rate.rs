//! Parses `rate("name", limit = 100, per = "1m", burst = 10, by(account))`.

use std::time::Duration;

use syn::{Expr, ExprAssign, ExprCall, ExprTuple, Ident, Lit, LitStr};

use super::concurrency::{arguments, is};
use super::on_full::{self, OnFull};
use super::values::{duration, literal, shared_name};

/// The most starts, the largest burst, the longest time, and the most starts in a second. `diesel_jobs_core` has the
/// same at run time.
const MOST: u32 = 1_000_000;
const MOST_BURST: u32 = 10_000;
/// The longest time until all tokens of a key are there.
const HUNDRED_YEARS: Duration = Duration::from_secs(36_525 * 24 * 3600);
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
const MOST_PER_SECOND: u128 = 10_000;

const FORM: &str = "write `rate(limit = 100, per = \"1m\")`, with `burst = 10` or `by(account_id)`, or `rate(\"stripe\", limit = 100, per = \"1m\")`";

/// The option as it is written.
pub(crate) struct Rate {
    /// The name of a rate that kinds share.
    pub(crate) name: Option<LitStr>,
    /// How many jobs may start.
    pub(crate) most: u32,
    /// In which time.
    pub(crate) per: Duration,
    /// How many may start at once.
    pub(crate) burst: Option<u32>,
    /// The arguments whose values are the key.
    pub(crate) by: Vec<Ident>,
    /// What happens with a job that finds no token.
    pub(crate) on_full: OnFull,
}

pub(super) fn rate(value: Expr) -> syn::Result<Rate> {
    let Expr::Tuple(ExprTuple { elems, paren_token, .. }) = value else {
        return Err(syn::Error::new_spanned(value, format!("`rate` takes a list: {FORM}")));
    };
    let (mut name, mut most, mut per, mut burst, mut by, mut rule) = (None, None, None, None, Vec::new(), None);
    for (place, part) in elems.iter().enumerate() {
        let is_new = match part {
            Expr::Lit(_) | Expr::Group(_) if place == 0 => name.replace(shared_name("rate", part, FORM)?).is_none(),
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "limit") => most
                .replace(number(
                    right,
                    MOST,
                    "`limit` takes a whole number from 1 to 1000000: how many jobs may start",
                )?)
                .is_none(),
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "burst") => burst
                .replace(number(
                    right,
                    MOST_BURST,
                    "`burst` takes a whole number from 1 to 10000: how many jobs may start at once",
                )?)
                .is_none(),
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "per") => per.replace(time(right)?).is_none(),
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "on_full") => {
                rule.replace(on_full::of_rate(right)?).is_none()
            }
            Expr::Call(ExprCall { func, args, .. }) if is(func, "by") => {
                arguments(part, args, &mut by)?;
                true
            }
            _ => return Err(syn::Error::new_spanned(part, format!("not a part of `rate`; {FORM}"))),
        };
        if !is_new {
            return Err(syn::Error::new_spanned(part, "this part of `rate` is given twice"));
        }
    }
    let missing = |part: &str| syn::Error::new(paren_token.span.join(), format!("`rate` has no `{part}`; {FORM}"));
    let (most, per) = (most.ok_or_else(|| missing("limit"))?, per.ok_or_else(|| missing("per"))?);
    if u128::from(most) * 1000 > per.as_millis() * MOST_PER_SECOND {
        let message = "a rate allows at most 10000 starts in a second; for more, use no rate";
        return Err(syn::Error::new(paren_token.span.join(), message));
    }
    if per.as_secs_f64() * f64::from(burst.unwrap_or(1)) / f64::from(most) > HUNDRED_YEARS.as_secs_f64() {
        let message = "the tokens of `burst` must come within a hundred years";
        return Err(syn::Error::new(paren_token.span.join(), message));
    }
    Ok(Rate { name, most, per, burst, by, on_full: rule.unwrap_or_default() })
}

fn number(value: &Expr, most: u32, otherwise: &str) -> syn::Result<u32> {
    let refuse = || syn::Error::new_spanned(value, otherwise);
    let Some(Lit::Int(int)) = literal(value) else { return Err(refuse()) };
    int.base10_parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(refuse)
}

fn time(value: &Expr) -> syn::Result<Duration> {
    let time = duration(value, "per")?;
    if time.is_zero() || time > LONGEST {
        return Err(syn::Error::new_spanned(value, "`per` is longer than 0 and at most 366 days"));
    }
    Ok(time)
}
