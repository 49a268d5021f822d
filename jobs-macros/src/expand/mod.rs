//! Generates the code: `function` and `declaration` for the two macros, and the modules that they share.

mod arguments;
mod columns;
mod declaration;
mod defaults;
mod function;
mod loaded;
mod output;
mod registration;
mod rows;
mod traits;

use proc_macro2::TokenStream;
use quote::quote;

use crate::ast::{Declaration, Function};
use crate::attr;
use crate::errors::Errors;
use crate::options::{Options, Target};
use crate::{arg, fallback, krate, validate};

/// Expands `#[job(list)]` above `item`.
pub(crate) fn job(list: TokenStream, item: TokenStream) -> TokenStream {
    let private = krate::private();
    let mut errors = Errors::default();
    let options = Options::read(attr::entries(list, &mut errors), Target::Function, &mut errors);
    let Some(mut function) = errors.keep(syn::parse2::<Function>(item.clone())) else {
        return with_errors(arg::without_args(item), errors);
    };
    let plan = validate::function(&mut function, options, &mut errors);
    let beside = match (errors.into_option(), plan) {
        (None, Some(plan)) => function::expand(&private, &function, &plan),
        (Some(error), plan) => fallback::function(&private, &function, plan.as_ref(), &error),
        (None, None) => TokenStream::new(),
    };
    let item = arg::without_args(item);
    quote!(#item #beside)
}

/// Expands `#[derive(Job)]` above `item`.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let private = krate::private();
    let mut errors = Errors::default();
    let Some(declaration) = errors.keep(syn::parse2::<Declaration>(item)) else {
        return with_errors(TokenStream::new(), errors);
    };
    let options = Options::read(attr::helper_entries(&declaration.attrs, &mut errors), Target::Type, &mut errors);
    let plan = validate::declaration(&declaration, options, &mut errors);
    match errors.into_option() {
        None => declaration::expand(&private, &declaration, &plan),
        Some(error) => fallback::declaration(&private, &declaration, &plan, &error),
    }
}

fn with_errors(item: TokenStream, errors: Errors) -> TokenStream {
    let errors = errors.into_option().map(|error| error.to_compile_error());
    quote!(#item #errors)
}
