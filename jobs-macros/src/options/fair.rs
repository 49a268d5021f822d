//! Parses `fair(by(tenant_id))`.

use syn::{Expr, ExprCall, ExprTuple, Ident};

use super::concurrency::{arguments, is};

const FORM: &str =
    "write `concurrency(limit = 10), fair(by(tenant_id))`: the tenants that wait for the limit take turns";

/// Returns the arguments whose values are the tenant of a job.
pub(super) fn fair(value: Expr) -> syn::Result<Vec<Ident>> {
    let Expr::Tuple(ExprTuple { elems, paren_token, .. }) = value else {
        return Err(syn::Error::new_spanned(value, format!("`fair` takes a list: {FORM}")));
    };
    let mut by = Vec::new();
    for part in &elems {
        match part {
            Expr::Call(ExprCall { func, args, .. }) if is(func, "by") && !args.is_empty() => {
                arguments(part, args, &mut by)?
            }
            _ => return Err(syn::Error::new_spanned(part, format!("not a part of `fair`; {FORM}"))),
        }
    }
    if by.is_empty() {
        return Err(syn::Error::new(paren_token.span.join(), format!("`fair` has no `by`; {FORM}")));
    }
    Ok(by)
}
