//! Parses `sequence("name", by(order_id), on_discard = "halt")`.

use syn::{Expr, ExprAssign, ExprCall, ExprTuple, Ident, Lit, LitStr};

use super::concurrency::{arguments, is};
use super::values::{literal, shared_name};

const FORM: &str = "write `sequence(by(order_id))`, `sequence(by(order_id), on_discard = \"skip\")` or `sequence(\"orders\", by(order_id))`";

/// The option as it is written.
pub(crate) struct Sequence {
    /// The name of a sequence that kinds share.
    pub(crate) name: Option<LitStr>,
    /// The arguments whose values are the key.
    pub(crate) by: Vec<Ident>,
    /// What happens when a job is discarded.
    pub(crate) on_discard: OnDiscard,
}

#[derive(Clone, Copy)]
pub(crate) enum OnDiscard {
    Halt,
    Skip,
}

pub(super) fn sequence(value: Expr) -> syn::Result<Sequence> {
    let Expr::Tuple(ExprTuple { elems, .. }) = value else {
        return Err(syn::Error::new_spanned(value, format!("`sequence` takes a list: {FORM}")));
    };
    let (mut name, mut by, mut on_discard) = (None, Vec::new(), None);
    for (place, part) in elems.iter().enumerate() {
        match part {
            Expr::Lit(_) | Expr::Group(_) if place == 0 => name = Some(shared_name("sequence", part, FORM)?),
            Expr::Call(ExprCall { func, args, .. }) if is(func, "by") => arguments(part, args, &mut by)?,
            Expr::Assign(ExprAssign { left, right, .. }) if is(left, "on_discard") => {
                if on_discard.replace(policy(right)?).is_some() {
                    return Err(syn::Error::new_spanned(part, "`on_discard` is given twice"));
                }
            }
            _ => return Err(syn::Error::new_spanned(part, format!("not a part of `sequence`; {FORM}"))),
        }
    }
    Ok(Sequence { name, by, on_discard: on_discard.unwrap_or(OnDiscard::Halt) })
}

fn policy(value: &Expr) -> syn::Result<OnDiscard> {
    let word = match literal(value) {
        Some(Lit::Str(word)) => word.value(),
        _ => String::new(),
    };
    match word.as_str() {
        "halt" => Ok(OnDiscard::Halt),
        "skip" => Ok(OnDiscard::Skip),
        _ => Err(syn::Error::new_spanned(
            value,
            "`on_discard` takes \"halt\" (no later job starts until an operator decides) or \"skip\" (the next job starts)",
        )),
    }
}
