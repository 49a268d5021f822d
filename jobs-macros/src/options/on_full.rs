//! Parses the part `on_full = "wait"` of `concurrency` and `rate`.

use syn::{Expr, Lit};

use super::values::literal;

/// What happens with a job that finds its limit full.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OnFull {
    #[default]
    Wait,
    Discard,
    CancelOldest,
}

/// Of a limit.
pub(super) fn of_limit(value: &Expr) -> syn::Result<OnFull> {
    read(value).ok_or_else(|| {
        syn::Error::new_spanned(
            value,
            "`on_full` takes \"wait\", \"discard\" (a job that finds the limit full is discarded) or \"cancel_oldest\" (the oldest job of its key is \
             cancelled)",
        )
    })
}

/// Of a rate.
pub(super) fn of_rate(value: &Expr) -> syn::Result<OnFull> {
    match read(value) {
        Some(OnFull::CancelOldest) => Err(syn::Error::new_spanned(
            value,
            "`on_full` of a rate is \"wait\" or \"discard\": cancelling a job frees no token",
        )),
        Some(on_full) => Ok(on_full),
        None => Err(syn::Error::new_spanned(
            value,
            "`on_full` of a rate takes \"wait\" or \"discard\" (a job that finds no token is discarded)",
        )),
    }
}

fn read(value: &Expr) -> Option<OnFull> {
    let Some(Lit::Str(word)) = literal(value) else { return None };
    match word.value().as_str() {
        "wait" => Some(OnFull::Wait),
        "discard" => Some(OnFull::Discard),
        "cancel_oldest" => Some(OnFull::CancelOldest),
        _ => None,
    }
}
