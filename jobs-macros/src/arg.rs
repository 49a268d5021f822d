//! `#[arg(..)]` on the parameters of a function and on the fields of a type.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Meta, Token};

use crate::nearest::nearest;

const KNOWN: [&str; 1] = ["secret"];

/// What is said about one argument.
#[derive(Clone, Copy, Default)]
pub(crate) struct ArgOptions {
    /// Its value appears in no log, error or page.
    pub(crate) secret: bool,
}

impl ArgOptions {
    /// Reads all `#[arg(..)]` among the attributes.
    pub(crate) fn read(attrs: &[Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("arg")) {
            let Meta::List(list) = &attr.meta else {
                return Err(syn::Error::new_spanned(attr, "options stand in parentheses: `#[arg(secret)]`"));
            };
            for option in list.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated)? {
                if option == "secret" {
                    options.secret = true;
                } else {
                    return Err(unknown(&option));
                }
            }
        }
        Ok(options)
    }
}

fn unknown(option: &Ident) -> syn::Error {
    let hint = match nearest(&option.to_string(), KNOWN) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("an argument knows: {}", KNOWN.join(", ")),
    };
    syn::Error::new(option.span(), format!("unknown option `{option}`; {hint}"))
}

/// Returns the function without the `#[arg(..)]` of its parameters, which the compiler would not know.
pub(crate) fn without_args(item: TokenStream) -> TokenStream {
    let (mut after_fn, mut done) = (false, false);
    item.into_iter()
        .map(|token| match token {
            TokenTree::Group(group) if after_fn && !done && group.delimiter() == Delimiter::Parenthesis => {
                done = true;
                let mut parameters = Group::new(Delimiter::Parenthesis, strip(group.stream()));
                parameters.set_span(group.span());
                TokenTree::Group(parameters)
            }
            token => {
                after_fn |= matches!(&token, TokenTree::Ident(ident) if ident == "fn");
                token
            }
        })
        .collect()
}

fn strip(parameters: TokenStream) -> TokenStream {
    let mut tokens = parameters.into_iter().peekable();
    let mut kept = TokenStream::new();
    while let Some(token) = tokens.next() {
        let hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        if hash && tokens.next_if(is_arg).is_some() {
            continue;
        }
        kept.extend([token]);
    }
    kept
}

fn is_arg(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket && matches!(first, Some(TokenTree::Ident(ident)) if ident == "arg")
}
