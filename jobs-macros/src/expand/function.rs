//! Generates the code beside a `#[job]` function.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned as _;

use super::registration::Handling;
use super::{arguments, columns, defaults, loaded, output, registration, rows, traits};
use crate::ast::{Form, Function, Param};
use crate::validate::{Plan, return_type};

/// Generates the struct, and all implementations for it in a scope of their own.
pub(crate) fn expand(private: &TokenStream, function: &Function, plan: &Plan) -> TokenStream {
    let shared = &plan.shared;
    let structure = arguments::structure(private, function, plan);
    let constructor = arguments::constructor(private, function, plan);
    let json = arguments::json(private, function, plan);
    let traits = traits::traits(private, function, plan);
    let stored: Vec<_> =
        arguments::of(function).map(|argument| (&argument.name, arguments::stored(private, argument))).collect();
    let columns = columns::constructor(private, &plan.name, &function.vis, &stored);
    let output = output::reader(private, function, plan);
    let job = defaults::job(private, plan);
    let registered = registration::registered(private, plan, &handling(private, function, plan));
    let submission = registration::submission(private, plan);
    quote! {
        #structure

        #(#shared)*
        #[allow(deprecated)]
        const _: () = {
            #constructor
            #columns
            #output
            #json
            #traits
            #job
            #registered
            #submission
        };
    }
}

fn handling(private: &TokenStream, function: &Function, plan: &Plan) -> Handling {
    let states = function.params.iter().filter_map(|param| match param {
        Param::State { inner, .. } => Some(quote!(#private::TypeKey::of::<#inner>)),
        _ => None,
    });
    let connection = function.params.iter().find_map(|param| match param {
        Param::Connection(ty) => Some(ty),
        _ => None,
    });
    Handling {
        handler: handler(private, function, plan, connection),
        states: quote!(#(#states),*),
        decode: None,
        connection: match connection {
            Some(ty) => quote!(::core::option::Option::Some(#private::TypeKey::of::<#ty>)),
            None => quote!(::core::option::Option::None),
        },
    }
}

/// Generates a closure in the form that the function needs. Its span is the function's name: the compiler must point
/// there if the future is not `Send`. Its names have `mixed_site` hygiene, so they cannot collide with the user's
/// names.
fn handler(private: &TokenStream, function: &Function, plan: &Plan, connection: Option<&Type>) -> TokenStream {
    let sig = &function.sig;
    let (ident, returns) = (&sig.ident, return_type(sig));
    let here = Span::mixed_site().located_at(ident.span());
    let is_async = sig.asyncness.is_some();
    let opened = connection.map(|ty| {
        let connection_trait = if is_async { quote!(AsyncJobConnection) } else { quote!(BlockingJobConnection) };
        quote_spanned!(here=> let connection = <#ty as #private::#connection_trait>::of_job(connection, &ctx)?;)
    });
    let job = &plan.name;
    let unused = arguments::of(function).next().is_none().then(|| quote!(#[allow(unused_variables)]));
    let values = function.params.iter().enumerate().map(|(position, param)| match param {
        Param::Argument(argument) => {
            let field = &argument.name;
            match argument.form {
                Form::Value(_) | Form::String(_) => quote_spanned!(here=> job.#field),
                Form::Str | Form::Slice(_) => quote_spanned!(here=> &job.#field),
                Form::Row { .. } => rows::local(position).into_token_stream(),
            }
        }
        // The compiler points at the type if it is another one of this name, such as axum's.
        Param::State { whole, .. } => {
            let of_worker = whole.span().resolved_at(here);
            quote_spanned!(of_worker=> <#whole as #private::StateParameter>::of_worker(&ctx)?)
        }
        Param::Context { by_reference: true } => quote_spanned!(here=> &ctx),
        Param::Context { by_reference: false } => quote_spanned!(here=> ::core::clone::Clone::clone(&ctx)),
        Param::Take(..) => rows::local(position).into_token_stream(),
        Param::Connection(_) => quote_spanned!(here=> connection),
        // Unreachable: `validate` refuses functions with such a parameter.
        Param::Refused(_) => TokenStream::new(),
    });
    let answer = match is_async {
        true => quote_spanned!(here=> #ident(#(#values),*).await),
        false => quote_spanned!(here=> #ident(#(#values),*)),
    };
    let call = quote_spanned!(here=> <#returns as #private::IntoHandled<_>>::into_handled(#answer));
    if connection.is_none() && loaded::has_rows(function) {
        return loaded::handler(private, function, job, here, &call);
    }
    let rows = connection.into_iter().flat_map(|ty| rows::load(private, function, ty));
    let body = quote_spanned! {here=>
        #unused
        let job = <#job as #private::Registered>::decode(&ctx)?;
        #opened
        #(#rows)*
        #call
    };
    match (is_async, connection.is_some()) {
        (true, false) => quote_spanned! {here=>
            #private::Handler::Async(|ctx| ::std::boxed::Box::pin(async move { #body }))
        },
        (true, true) => quote_spanned! {here=>
            #private::Handler::AsyncTransactional(|connection, ctx| ::std::boxed::Box::pin(async move { #body }))
        },
        (false, false) => quote_spanned!(here=> #private::Handler::Blocking(|ctx| { #body })),
        (false, true) => quote_spanned! {here=>
            #private::Handler::BlockingTransactional(|connection, ctx| { #body })
        },
    }
}
