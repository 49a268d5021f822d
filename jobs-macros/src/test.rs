//! `#[diesel_jobs::test]`: a test that is given a connection.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Expr, ExprLit, ExprPath, FnArg, ItemFn, Lit, LitStr, Signature, Token, Type};

use crate::attr::{self, Entry};
use crate::errors::Errors;
use crate::krate;
use crate::nearest::nearest;

const OPTIONS: [&str; 2] = ["migrations", "setup"];
const FORM: &str = "`fn name(conn: &mut SqliteConnection) { .. }`, or `async fn` for an async connection";

#[derive(Default)]
struct Options {
    migrations: Option<LitStr>,
    setup: Option<ExprPath>,
}

/// Expands `#[diesel_jobs::test(list)]` above `item`.
pub(crate) fn expand(list: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let options = options(attr::entries(list, &mut errors), &mut errors);
    let Ok(function) = syn::parse2::<ItemFn>(item.clone()) else {
        errors.at(item, format!("`#[diesel_jobs::test]` stands above a test: {FORM}"));
        return errors.into_option().map(|error| error.to_compile_error()).unwrap_or_default();
    };
    let connection = connection(&function, &mut errors);
    match (errors.into_option(), connection) {
        (None, Some(connection)) => test(&function, &connection, &options),
        (error, _) => error.map(|error| error.to_compile_error()).unwrap_or_default(),
    }
}

/// Expands `equal!(left, right)`.
pub(crate) fn equal(operands: TokenStream) -> TokenStream {
    let operands = Punctuated::<Expr, Token![,]>::parse_separated_nonempty.parse2(operands);
    match operands.map(|operands| operands.into_iter().collect::<Vec<_>>()) {
        Ok(operands) if operands.len() == 2 => {
            let (left, right) = (&operands[0], &operands[1]);
            // The span of the group itself is in the macro that inserted it.
            let equal = Token![==](ungrouped(right.clone()).span());
            quote!((#left #equal #right))
        }
        Ok(operands) => {
            let problem = format!("`equal!` takes two operands, and there are {}", operands.len());
            syn::Error::new(Span::call_site(), problem).to_compile_error()
        }
        Err(error) => error.to_compile_error(),
    }
}

fn options(entries: Vec<Entry>, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    for Entry { name, value } in entries {
        let word = name.to_string();
        let twice = match &*word {
            "migrations" => options.migrations.is_some(),
            "setup" => options.setup.is_some(),
            _ => false,
        };
        match (&*word, ungrouped(value)) {
            _ if twice => errors.at(&name, format!("`{word}` is set twice")),
            ("migrations", Expr::Lit(ExprLit { lit: Lit::Str(directory), .. })) => options.migrations = Some(directory),
            ("setup", Expr::Path(path)) => options.setup = Some(path),
            ("migrations", value) => {
                errors.at(value, "`migrations` takes a directory of the package as a string, such as \"migrations\"");
            }
            ("setup", value) => errors.at(value, "`setup` takes the path of a function, such as `create_tables`"),
            _ => {
                let meant = nearest(&word, OPTIONS).map(|near| format!("did you mean `{near}`?"));
                let meant = meant.unwrap_or_else(|| "there are `migrations` and `setup`".to_owned());
                errors.at(&name, format!("unknown option `{word}`; {meant}"));
            }
        }
    }
    options
}

/// Macros by example put what they insert into a group.
fn ungrouped(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => ungrouped(*group.expr),
        value => value,
    }
}

/// The type of the connection that the test takes.
fn connection(ItemFn { attrs, sig, .. }: &ItemFn, errors: &mut Errors) -> Option<Type> {
    if let Some(attr) = attrs.iter().find(|attr| attr.path().segments.last().is_some_and(|last| last.ident == "test")) {
        errors.at(attr, "`#[diesel_jobs::test]` makes the test: leave this attribute out");
    }
    let Signature { generics, inputs, ident, variadic, unsafety, abi, constness, .. } = sig;
    if !generics.params.is_empty() {
        errors.at(generics, "a test has no generic parameters");
    }
    if variadic.is_some() || unsafety.is_some() || abi.is_some() || constness.is_some() {
        errors.at(sig, format!("a test is a plain function: {FORM}"));
    }
    let mut inputs = inputs.iter();
    let Some(first) = inputs.next() else {
        errors
            .at(ident, "this test takes no connection: write `#[test]`, or a parameter `conn: &mut SqliteConnection`");
        return None;
    };
    if let Some(more) = inputs.next() {
        errors.at(more, "a test is given one connection: open others in the test");
    }
    match first {
        FnArg::Typed(param) => match &*param.ty {
            Type::Reference(reference) if reference.mutability.is_some() => Some((*reference.elem).clone()),
            ty => {
                errors.at(ty, "a test takes the connection as `&mut`, such as `&mut SqliteConnection`");
                None
            }
        },
        FnArg::Receiver(receiver) => {
            errors.at(receiver, format!("a test is no method: {FORM}"));
            None
        }
    }
}

fn test(function: &ItemFn, connection: &Type, options: &Options) -> TokenStream {
    let ItemFn { attrs, vis, sig, block } = function;
    let (name, output) = (&sig.ident, &sig.output);
    let private = krate::private();
    let here = Span::mixed_site();
    let is_async = sig.asyncness.is_some();
    let wait = is_async.then(|| quote!(.await));
    let migrations = match &options.migrations {
        Some(directory) => quote!(::core::option::Option::Some(#directory)),
        None => quote!(::core::option::Option::None),
    };
    let setup = options
        .setup
        .as_ref()
        .map(|setup| quote_spanned!(setup.span().resolved_at(here)=> #private::Prepared::done(#setup(conn) #wait);));
    let run = match is_async {
        true => quote!(run_async_test),
        false => quote!(run_test),
    };
    let run = quote_spanned!(connection.span().resolved_at(here)=> #private::#run::<#connection, _>);
    let asyncness = &sig.asyncness;
    quote_spanned! {here=>
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis fn #name() #output {
            #sig #block
            #run(
                #private::TestSettings { package: ::core::env!("CARGO_MANIFEST_DIR"), migrations: #migrations },
                #asyncness |conn: &mut #connection| {
                    #setup
                    #name(conn) #wait
                },
            )
        }
    }
}
