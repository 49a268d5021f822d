//! Parses `aliases("send_welcome")`.

use syn::{Expr, ExprTuple, LitStr};

use super::values::{storable, text};
use crate::names::without_version;

const FORM: &str = "write the earlier names of the kind, the oldest first: `aliases(\"send_welcome\")`";

/// Returns the earlier names, each of which is different and has no version.
pub(super) fn aliases(value: Expr) -> syn::Result<Vec<LitStr>> {
    let Expr::Tuple(ExprTuple { elems, paren_token, .. }) = value else {
        return Err(syn::Error::new_spanned(value, format!("`aliases` takes a list: {FORM}")));
    };
    if elems.is_empty() {
        return Err(syn::Error::new(paren_token.span.join(), format!("`aliases` names no kind: {FORM}")));
    }
    let mut aliases: Vec<LitStr> = Vec::new();
    for value in &elems {
        let alias = text(value, &format!("`aliases` takes strings: {FORM}"))?;
        storable("an alias", &alias)?;
        let name = alias.value();
        let problem = if aliases.iter().any(|before| before.value() == name) {
            format!("`aliases` names `{name}` twice")
        } else if let Some(base) = without_version(&name) {
            format!(
                "an alias has no version, because it covers the versions that this job covers: write \"{base}\", and `version` and \
                 `upgrade` as they would be without the new name"
            )
        } else {
            aliases.push(alias);
            continue;
        };
        return Err(syn::Error::new(alias.span(), problem));
    }
    Ok(aliases)
}
