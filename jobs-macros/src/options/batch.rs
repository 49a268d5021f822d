//! Parses `batch(max = 100)`.

use syn::{Expr, ExprAssign, ExprLit, ExprPath, ExprTuple, Lit};

/// The most jobs of a batch. A claim asks for at most as many.
const MOST: usize = 1000;

const FORM: &str = "`batch` takes the most jobs of one call in parentheses: `batch(max = 100)`";

/// Returns the most jobs of one call.
pub(super) fn batch(value: &Expr) -> syn::Result<usize> {
    let Expr::Tuple(ExprTuple { elems, .. }) = value else {
        return Err(syn::Error::new_spanned(value, FORM));
    };
    let mut most = None;
    for option in elems {
        let Expr::Assign(ExprAssign { left, right, .. }) = option else {
            return Err(syn::Error::new_spanned(option, FORM));
        };
        match &**left {
            Expr::Path(ExprPath { path, .. }) if path.is_ident("max") && most.is_none() => most = Some(max(right)?),
            Expr::Path(ExprPath { path, .. }) if path.is_ident("max") => {
                return Err(syn::Error::new_spanned(left, "`max` is given twice"));
            }
            other => {
                return Err(syn::Error::new_spanned(
                    other,
                    "unknown option of `batch`; there is `max`, as in `batch(max = 100)`",
                ));
            }
        }
    }
    most.ok_or_else(|| syn::Error::new_spanned(value, FORM))
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
