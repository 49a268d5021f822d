//! Generates `impl Registered`, and the entry in the program's list of all jobs.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;

use super::defaults;
use crate::options::Options;
use crate::validate::Plan;
use crate::version::Earlier;

/// The parts of a registration that depend on the form of the handler.
pub(crate) struct Handling {
    /// An expression of type `Handler`.
    pub(crate) handler: TokenStream,
    /// Expressions of type `fn() -> TypeKey`, separated by commas.
    pub(crate) states: TokenStream,
    /// An expression of type `Option<fn() -> TypeKey>`.
    pub(crate) connection: TokenStream,
    /// An expression that decodes the arguments of the current version, if that is not the default.
    pub(crate) decode: Option<TokenStream>,
}

/// Generates `impl Registered`.
pub(crate) fn registered(private: &TokenStream, plan: &Plan, handling: &Handling) -> TokenStream {
    let Plan { name, options, earlier, aliases, .. } = plan;
    let Handling { handler, states, connection, decode } = handling;
    let decode = decoding(private, plan, decode.as_ref());
    let version = options.version.unwrap_or(1);
    let earlier = earlier.iter().map(|earlier| &earlier.kind);
    let aliases = aliases.iter().map(|kinds| quote!(&[#(#kinds),*]));
    let schedule = defaults::schedule(private, options);
    let on_discarded = on_discarded(private, options);
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
                decodes: |ctx: &#private::JobContext| <Self as #private::Registered>::decode(ctx).map(::core::mem::drop),
                version: #version,
                earlier: &[#(#earlier),*],
                aliases: &[#(#aliases),*],
                on_discarded: #on_discarded,
            };
            #decode
        }
    }
}

/// Generates an expression of type `Option<OnDiscarded>`.
fn on_discarded(private: &TokenStream, options: &Options) -> TokenStream {
    let here = Span::mixed_site();
    match &options.on_discarded {
        Some(job) => quote_spanned! {job.span().resolved_at(here)=>
            ::core::option::Option::Some(|discarded: #private::Discarded| {
                #private::JobBuilder::new::<#job>(<#job>::new(discarded))
            })
        },
        None => quote_spanned!(here=> ::core::option::Option::None),
    }
}

/// Generates `Registered::decode`, if the default implementation is not sufficient.
fn decoding(private: &TokenStream, plan: &Plan, current: Option<&TokenStream>) -> TokenStream {
    if plan.earlier.is_empty() && current.is_none() {
        return TokenStream::new();
    }
    let here = Span::mixed_site();
    let current = current.cloned().unwrap_or_else(|| quote_spanned!(here=> ctx.decode()));
    let arms = plan.earlier.iter().enumerate().map(|(oldest, Earlier { kind, upgrade })| {
        let stored = quote_spanned!(upgrade.span().resolved_at(here)=> ctx.decode()?);
        let upgraded = plan.earlier[oldest..].iter().fold(stored, |arguments, Earlier { upgrade, .. }| {
            quote_spanned!(upgrade.span().resolved_at(here)=> #upgrade(#arguments))
        });
        let aliases = plan.aliases.iter().map(|kinds| &kinds[oldest]);
        quote_spanned!(here=> #kind #(| #aliases)* => ::core::result::Result::Ok(#upgraded),)
    });
    let decoded = match plan.earlier.is_empty() {
        true => current,
        false => quote_spanned!(here=> match ctx.kind() { #(#arms)* _ => #current }),
    };
    quote_spanned! {here=>
        fn decode(ctx: &#private::JobContext) -> ::core::result::Result<Self, #private::JobError> {
            #decoded
        }
    }
}

/// Generates the entry that adds the job to every worker of a program that links this crate.
pub(crate) fn submission(private: &TokenStream, Plan { name, .. }: &Plan) -> TokenStream {
    quote_spanned! {Span::mixed_site()=>
        #private::inventory::submit! { <#name as #private::Registered>::REGISTRATION }
    }
}
