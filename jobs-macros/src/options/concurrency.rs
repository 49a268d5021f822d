//! Parses `concurrency("name", limit = 5, by(account_id))`.

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprAssign, ExprCall, ExprTuple, Ident, Lit, LitStr, Token};

use super::on_full::{self, OnFull};
use super::values::{literal, shared_name};

/// The most jobs that a limit may allow. `diesel_jobs_core` has the same limit at run time.
const MOST_AT_ONCE: u32 = 10_000;

const FORM: &str =
    "write `concurrency(limit = 5)`, `concurrency(limit = 5, by(account_id))` or `concurrency(\"stripe\", limit = 5)`";

/// The option as it is written.
pub(crate) struct Concurrency {
    /// The name of a limit that kinds share.
    pub(crate) name: Option<LitStr>,
    /// How many jobs may run at once.
    pub(crate) most: u32,
    /// The arguments whose values are the key.
    pub(crate) by: Vec<Ident>,
    /// What happens with a job that finds it full.
    pub(crate) on_full: OnFull,
}

pub(super) fn concurrency(value: Expr) -> syn::Result<Concurrency> {
    let Expr::Tuple(ExprTuple { elems, paren_token, .. }) = value else {
        return Err(syn::Error::new_spanned(value, format!("`concurrency` takes a list: {FORM}")));
    };
    let (mut name, mut most, mut by, mut rule) = (None, None, Vec::new(), None);
    for (place, part) in elems.iter().enumerate() {
        let refuse = |message: String| Err(syn::Error::new_spanned(part, message));
        match part {
            Expr::Lit(_) | Expr::Group(_) if place == 0 => name = Some(shared_name("concurrency", part, FORM)?),
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "limit") => {
                if most.replace(limit(right)?).is_some() {
                    return refuse("`limit` is given twice".to_owned());
                }
            }
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "on_full") => {
                if rule.replace(on_full::of_limit(right)?).is_some() {
                    return refuse("`on_full` is given twice".to_owned());
                }
            }
            Expr::Call(ExprCall { func, args, .. }) if is(func, "by") => arguments(part, args, &mut by)?,
            _ => return refuse(format!("not a part of `concurrency`; {FORM}")),
        }
    }
    let Some(most) = most else {
        return Err(syn::Error::new(paren_token.span.join(), format!("`concurrency` has no `limit`; {FORM}")));
    };
    Ok(Concurrency { name, most, by, on_full: rule.unwrap_or_default() })
}

/// Reads the arguments of `by(..)`, which is `part`.
pub(super) fn arguments(part: &Expr, args: &Punctuated<Expr, Token![,]>, by: &mut Vec<Ident>) -> syn::Result<()> {
    if !by.is_empty() {
        return Err(syn::Error::new_spanned(part, "`by` is given twice"));
    }
    *by = args.iter().map(argument).collect::<syn::Result<_>>()?;
    if by.is_empty() {
        let message = "`by` names arguments, such as `by(account_id)`; leave it out to count all jobs together";
        return Err(syn::Error::new_spanned(part, message));
    }
    Ok(())
}

pub(super) fn is(expr: &Expr, word: &str) -> bool {
    matches!(expr, Expr::Path(path) if path.path.is_ident(word))
}

fn limit(value: &Expr) -> syn::Result<u32> {
    let otherwise = || {
        syn::Error::new_spanned(value, "`limit` takes a whole number from 1 to 10000: how many jobs may run at once")
    };
    let Some(Lit::Int(int)) = literal(value) else { return Err(otherwise()) };
    int.base10_parse().ok().filter(|most| (1..=MOST_AT_ONCE).contains(most)).ok_or_else(otherwise)
}

pub(super) fn argument(value: &Expr) -> syn::Result<Ident> {
    match value {
        Expr::Path(path) if path.path.get_ident().is_some() => Ok(path.path.require_ident()?.unraw()),
        _ => Err(syn::Error::new_spanned(value, "`by` names arguments of the job, such as `by(account_id)`")),
    }
}
