//! `#[arg(..)]` on the parameters of a function and on the fields of a type.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta, Path, Token};

use crate::nearest::nearest;

const KNOWN: [&str; 4] = ["secret", "gone", "lock", "from"];

/// The options of one argument.
#[derive(Clone, Default)]
pub(crate) struct ArgOptions {
    /// Its value appears in no log, error or page.
    pub(crate) secret: bool,
    /// What happens to the job if the row of a `Ref<T>` no longer exists.
    pub(crate) gone: Option<(Gone, Span)>,
    /// How the row of a `Ref<T>` or a `Take<T>` is locked.
    pub(crate) lock: Option<(Lock, Span)>,
    /// The function that returns the query of a `Take<T>`.
    pub(crate) from: Option<Path>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// `lock` without a value.
    Plain,
    Wait,
    Skip,
    NoWait,
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
                return Err(syn::Error::new_spanned(attr, "write the options in parentheses: `#[arg(secret)]`"));
            };
            for option in list.parse_args_with(Punctuated::<ArgOption, Token![,]>::parse_terminated)? {
                options.set(option)?;
            }
        }
        Ok(options)
    }

    fn set(&mut self, ArgOption { name, value }: ArgOption) -> syn::Result<()> {
        match name.to_string().as_str() {
            "secret" if value.is_some() => {
                Err(syn::Error::new_spanned(value, "`secret` takes no value: `#[arg(secret)]`"))
            }
            "secret" => {
                self.secret = true;
                Ok(())
            }
            "lock" => lock(value).map(|lock| self.lock = Some((lock, name.span()))),
            "gone" => gone(&name, value).map(|gone| self.gone = Some((gone, name.span()))),
            "from" => from(&name, value).map(|from| self.from = Some(from)),
            _ => Err(unknown(&name)),
        }
    }
}

impl ArgOptions {
    /// Returns an error if the options do not fit an argument. `row` is `None` for an argument that is not a row. For a
    /// row, it says whether the argument is an `Option<Ref<T>>`.
    pub(crate) fn fit_argument(&self, row: Option<bool>) -> syn::Result<()> {
        let refuse = |span, message: &str| Err(syn::Error::new(span, message));
        if let Some(from) = &self.from {
            return Err(syn::Error::new_spanned(from, "`from` belongs to a parameter `Take<T>`"));
        }
        match (row, self.gone, self.lock) {
            (Some(true), Some((gone, span)), _) if gone != Gone::None => refuse(
                span,
                "this handler takes an `Option<Ref<T>>`: it is `None` if the row is gone; take `Ref<T>` instead, or leave `gone` out",
            ),
            (Some(false), Some((Gone::None, span)), _) => {
                refuse(span, "with `gone = \"none\"` the handler gets no row: take an `Option<Ref<T>>`")
            }
            (Some(_), _, Some((lock, span))) if lock != Lock::Plain => refuse(
                span,
                "a `Ref<T>` always waits for the lock of its row: write `#[arg(lock)]`; only `Take<T>` has other values",
            ),
            (Some(_), ..) | (None, None, None) => Ok(()),
            (None, Some((_, span)), _) | (None, None, Some((_, span))) => {
                refuse(span, "`gone` and `lock` are only for rows: take a `Ref<T>`")
            }
        }
    }

    /// Returns an error if the options do not fit a parameter `Take<T>`.
    pub(crate) fn fit_take(&self) -> syn::Result<()> {
        match (self.gone, self.lock) {
            (Some((_, span)), _) => {
                Err(syn::Error::new(span, "`gone` is only for `Ref<T>`: a `Take<T>` selects a row that exists"))
            }
            (None, Some((Lock::Plain, span))) => Err(syn::Error::new(
                span,
                "a `Take<T>` is always locked: write `lock = \"wait\"`, \"skip\" or \"nowait\"",
            )),
            _ => Ok(()),
        }
    }
}

/// `name` or `name = value`.
struct ArgOption {
    name: Ident,
    value: Option<Expr>,
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

fn gone(name: &Ident, value: Option<Expr>) -> syn::Result<Gone> {
    const TAKES: &str = "`gone` takes \"cancel\", \"discard\", \"retry\" or \"none\"";
    let Some(value) = value else { return Err(syn::Error::new(name.span(), TAKES)) };
    match text(&value).as_deref() {
        Some("cancel") => Ok(Gone::Cancel),
        Some("discard") => Ok(Gone::Discard),
        Some("retry") => Ok(Gone::Retry),
        Some("none") => Ok(Gone::None),
        _ => Err(syn::Error::new_spanned(value, TAKES)),
    }
}

fn lock(value: Option<Expr>) -> syn::Result<Lock> {
    let Some(value) = value else { return Ok(Lock::Plain) };
    match text(&value).as_deref() {
        Some("wait") => Ok(Lock::Wait),
        Some("skip") => Ok(Lock::Skip),
        Some("nowait") => Ok(Lock::NoWait),
        _ => Err(syn::Error::new_spanned(value, "`lock` takes \"wait\", \"skip\" or \"nowait\"")),
    }
}

fn from(name: &Ident, value: Option<Expr>) -> syn::Result<Path> {
    match value {
        Some(Expr::Path(path)) => Ok(path.path),
        _ => Err(syn::Error::new(
            name.span(),
            "`from` takes the path of a function that returns a query, such as `from = free_coupons`",
        )),
    }
}

fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        Expr::Group(group) => text(&group.expr),
        _ => None,
    }
}

fn unknown(option: &Ident) -> syn::Error {
    let hint = match nearest(&option.to_string(), KNOWN) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the options are `{}`", KNOWN.join("`, `")),
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
