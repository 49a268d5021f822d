//! Generates `impl Registered`, and the entry in the program's list of all jobs.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::defaults;
use crate::validate::Plan;

/// The parts of a registration that depend on the form of the handler.
pub(crate) struct Handling {
    /// An expression of type `Handler`.
    pub(crate) handler: TokenStream,
    /// Expressions of type `fn() -> TypeKey`, separated by commas.
    pub(crate) states: TokenStream,
    /// An expression of type `Option<fn() -> TypeKey>`.
    pub(crate) connection: TokenStream,
}

/// Generates `impl Registered`.
pub(crate) fn registered(private: &TokenStream, plan: &Plan, handling: &Handling) -> TokenStream {
    let Plan { name, options, .. } = plan;
    let Handling { handler, states, connection } = handling;
    let schedule = defaults::schedule(private, options);
    let type_name = format!("::{name}");
    quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl #private::Registered for #name {
            const REGISTRATION: #private::Registration = #private::Registration {
                kind: <Self as #private::Job>::KIND,
                type_name: ::core::concat!(::core::module_path!(), #type_name),
                location: ::core::concat!(::core::file!(), ":", ::core::line!()),
                options: <Self as #private::Job>::OPTIONS,
                handler: #handler,
                schedule: #schedule,
                states: &[#states],
                connection: #connection,
            };
        }
    }
}

/// Generates the entry that adds the job to every worker of a program that links this crate.
pub(crate) fn submission(private: &TokenStream, Plan { name, .. }: &Plan) -> TokenStream {
    quote_spanned! {Span::mixed_site()=>
        #private::inventory::submit! { <#name as #private::Registered>::REGISTRATION }
    }
}
