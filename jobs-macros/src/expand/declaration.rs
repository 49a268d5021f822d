//! What stands beside a type with `#[derive(Job)]`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

use super::registration::Handling;
use super::{defaults, registration};
use crate::ast::Declaration;
use crate::validate::{Plan, is_unit};

/// Everything implemented for the type, in a scope of its own.
pub(crate) fn expand(private: &TokenStream, declaration: &Declaration, plan: &Plan) -> TokenStream {
    let Plan { name, shared, .. } = plan;
    let here = Span::mixed_site().located_at(name.span());
    // serde's own form of a unit struct is `null` alone; plain SQL and schedules write `{}`.
    let decode = match is_unit(declaration) {
        true => quote_spanned!(here=> |ctx| ctx.decode::<#private::NoArguments>().map(|_| #name)),
        false => quote_spanned!(here=> |ctx| #private::decode(ctx)),
    };
    let handling = Handling {
        handler: quote_spanned! {here=>
            #private::Handler::Async(|ctx| #private::handle::<#name>(ctx, #decode))
        },
        states: TokenStream::new(),
        connection: quote!(::core::option::Option::None),
    };
    let job = defaults::job(private, plan);
    let registered = registration::registered(private, plan, &handling);
    let submission = registration::submission(private, plan);
    quote! {
        #(#shared)*
        #[allow(deprecated)]
        const _: () = {
            #job
            #registered
            #submission
        };
    }
}
