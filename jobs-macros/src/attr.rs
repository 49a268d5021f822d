//! Parses the list inside `#[job(..)]` as `name = value` pairs. `aliases(..)`, `batch(..)`, `concurrency(..)`,
//! `sequence(..)`, `rate(..)`, `fair(..)`, `unique(..)` and `debounce(..)` are lists of their own. `options` interprets
//! the values.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::token::Paren;
use syn::{Attribute, Expr, ExprTuple, Ident, Meta, Token, parenthesized};

use crate::errors::Errors;

/// The options that are written as lists, with an example of each.
const LISTS: [(&str, &str); 8] = [
    ("aliases", "`aliases(\"send_welcome\")`"),
    ("batch", "`batch(max = 100)`"),
    ("concurrency", "`concurrency(limit = 5)`"),
    ("sequence", "`sequence(by(order_id))`"),
    ("rate", "`rate(limit = 100, per = \"1m\")`"),
    ("fair", "`fair(by(tenant_id))`"),
    ("unique", "`unique(by(user_id))`, or `unique()` for all arguments together"),
    ("debounce", "`debounce(quiet = \"5s\", max = \"1m\", by(doc_id))`"),
];

/// One `name = value`, or `name(..)` with a tuple as the value.
pub(crate) struct Entry {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

impl Parse for Entry {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error("expected an option, such as `queue = \"mail\"`"));
        }
        let name = input.call(Ident::parse_any)?;
        // An option that is no list, or is unknown, gets an error about its value or its name.
        if input.peek(Paren) {
            let list;
            let paren_token = parenthesized!(list in input);
            let elems = Punctuated::parse_terminated(&list)?;
            return Ok(Self { name, value: Expr::Tuple(ExprTuple { attrs: Vec::new(), paren_token, elems }) });
        }
        if !input.peek(Token![=]) {
            let example = LISTS.iter().find(|(list, _)| name == list);
            let form = example
                .map_or("options look like `queue = \"mail\"`".to_owned(), |(_, example)| format!("write {example}"));
            return Err(syn::Error::new(name.span(), format!("`{name}` is not a complete option; {form}")));
        }
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(syn::Error::new(
                name.span(),
                format!("`{name}` has no value; options look like `queue = \"mail\"`"),
            ));
        }
        Ok(Self { name, value: input.parse()? })
    }
}

/// Returns the options of `#[job(..)]` above a function.
pub(crate) fn entries(list: TokenStream, errors: &mut Errors) -> Vec<Entry> {
    errors
        .keep(Punctuated::<Entry, Token![,]>::parse_terminated.parse2(list))
        .map(|entries| entries.into_iter().collect())
        .unwrap_or_default()
}

/// Returns the options of all `#[job(..)]` below a `#[derive(Job)]`.
pub(crate) fn helper_entries(attrs: &[Attribute], errors: &mut Errors) -> Vec<Entry> {
    let mut all = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("job")) {
        match &attr.meta {
            Meta::List(list) => all.extend(entries(list.tokens.clone(), errors)),
            meta => errors.at(meta, "write the options in parentheses: `#[job(queue = \"mail\")]`"),
        }
    }
    all
}
