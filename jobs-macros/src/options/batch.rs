//! Parses `batch(max = 100, wait = "50ms", by(index))`.

use std::time::Duration;

use syn::{Expr, ExprAssign, ExprCall, ExprLit, ExprTuple, Ident, Lit};

use super::concurrency::{argument, is};
use super::values::text;
use crate::duration;

/// The most jobs of a batch. A claim asks for at most as many.
const MOST: usize = 1000;

/// The longest wait for more jobs. The jobs that wait are claimed, and no other worker can run them.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

const FORM: &str = "`batch` takes the most jobs of one call in parentheses: `batch(max = 100)`, and if you want `wait = \"50ms\"` and `by(index)`";

/// The option as it is written.
pub(crate) struct Batch {
    /// The most jobs of one call.
    pub(crate) most: usize,
    /// How long a call waits for more jobs.
    pub(crate) wait: Duration,
    /// The arguments whose values all jobs of a call share.
    pub(crate) by: Vec<Ident>,
}

pub(super) fn batch(value: &Expr) -> syn::Result<Batch> {
    let Expr::Tuple(ExprTuple { elems, .. }) = value else {
        return Err(syn::Error::new_spanned(value, FORM));
    };
    let (mut most, mut longest, mut by) = (None, None, Vec::new());
    for part in elems {
        let refuse = |message: &str| Err(syn::Error::new_spanned(part, message));
        match part {
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "max") => {
                if most.replace(max(right)?).is_some() {
                    return Err(syn::Error::new_spanned(left, "`max` is given twice"));
                }
            }
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "wait") => {
                if longest.replace(wait(right)?).is_some() {
                    return Err(syn::Error::new_spanned(left, "`wait` is given twice"));
                }
            }
            Expr::Call(ExprCall { func, args, .. }) if is(func, "by") => {
                if !by.is_empty() {
                    return refuse("`by` is given twice");
                }
                by = args.iter().map(argument).collect::<syn::Result<_>>()?;
                if by.is_empty() {
                    return refuse(
                        "`by` names arguments, such as `by(index)`; leave it out to take all jobs of the kind together",
                    );
                }
            }
            Expr::Assign(ExprAssign { left, .. }) => {
                return Err(syn::Error::new_spanned(left, UNKNOWN));
            }
            _ => return refuse(FORM),
        }
    }
    let Some(most) = most else { return Err(syn::Error::new_spanned(value, FORM)) };
    Ok(Batch { most, wait: longest.unwrap_or_default(), by })
}

const UNKNOWN: &str =
    "unknown option of `batch`; there are `max`, `wait` and `by`, as in `batch(max = 100, wait = \"50ms\", by(index))`";

fn wait(value: &Expr) -> syn::Result<Duration> {
    let text = text(value, "`wait` takes a duration as a string, such as \"50ms\"")?;
    let wait = duration::parse(&text.value()).map_err(|message| syn::Error::new(text.span(), message))?;
    if wait.is_zero() || wait > LONGEST_WAIT {
        return Err(syn::Error::new(text.span(), "a batch waits from \"1ms\" to \"10s\" for more jobs"));
    }
    Ok(wait)
}

fn max(value: &Expr) -> syn::Result<usize> {
    let number = match value {
        Expr::Group(group) => return max(&group.expr),
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    };
    number
        .filter(|most| (1..=MOST).contains(most))
        .ok_or_else(|| syn::Error::new_spanned(value, "`max` takes a whole number from 1 to 1000, without quotes"))
}
