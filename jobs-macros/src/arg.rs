//! `#[arg(..)]` on the parameters of a function and on the fields of a type.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, LitStr, Meta, Token};

use crate::nearest::nearest;

const KNOWN: [&str; 3] = ["secret", "gone", "lock"];

/// What is said about one argument.
#[derive(Clone, Default)]
pub(crate) struct ArgOptions {
    /// Its value appears in no log, error or page.
    pub(crate) secret: bool,
    /// What becomes of the job if the row of a `Ref<T>` no longer exists.
    pub(crate) gone: Option<(Gone, Span)>,
    /// The row of a `Ref<T>` is locked.
    pub(crate) lock: Option<Span>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    Cancel,
    Discard,
    Retry,
    /// The handler decides: its parameter is an `Option<Ref<T>>`.
    None,
}

impl ArgOptions {
    /// Reads all `#[arg(..)]` among the attributes.
    pub(crate) fn read(attrs: &[Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("arg")) {
            let Meta::List(list) = &attr.meta else {
                return Err(syn::Error::new_spanned(attr, "options stand in parentheses: `#[arg(secret)]`"));
            };
            for option in list.parse_args_with(Punctuated::<ArgOption, Token![,]>::parse_terminated)? {
                options.set(option)?;
            }
        }
        Ok(options)
    }

    fn set(&mut self, ArgOption { name, value }: ArgOption) -> syn::Result<()> {
        let alone = |message: &str| match &value {
            None => Ok(()),
            Some(value) => Err(syn::Error::new(value.span(), message)),
        };
        match name.to_string().as_str() {
            "secret" => alone("`secret` stands alone: `#[arg(secret)]`").map(|()| self.secret = true),
            "lock" => alone("`lock` stands alone: `#[arg(lock)]`").map(|()| self.lock = Some(name.span())),
            "gone" => gone(&name, value.as_ref()).map(|gone| self.gone = Some((gone, name.span()))),
            _ => Err(unknown(&name)),
        }
    }
}

/// `name` or `name = ".."`.
struct ArgOption {
    name: Ident,
    value: Option<LitStr>,
}

impl Parse for ArgOption {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Self { name, value })
    }
}

fn gone(name: &Ident, value: Option<&LitStr>) -> syn::Result<Gone> {
    const TAKES: &str = "`gone` takes \"cancel\", \"discard\", \"retry\" or \"none\"";
    let Some(value) = value else { return Err(syn::Error::new(name.span(), TAKES)) };
    match value.value().as_str() {
        "cancel" => Ok(Gone::Cancel),
        "discard" => Ok(Gone::Discard),
        "retry" => Ok(Gone::Retry),
        "none" => Ok(Gone::None),
        _ => Err(syn::Error::new(value.span(), TAKES)),
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
