//! Generates the code for a type with `#[derive(Job)]`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};

use super::registration::Handling;
use super::{columns, defaults, registration};
use crate::ast::Declaration;
use crate::fields::{is_unit, plain_fields};
use crate::validate::Plan;

/// Generates all implementations for the type, in a scope of their own.
pub(crate) fn expand(private: &TokenStream, declaration: &Declaration, plan: &Plan) -> TokenStream {
    let Plan { name, shared, .. } = plan;
    let handling = Handling {
        handler: handler(private, plan),
        // serde accepts only `null` for a unit struct. Plain SQL and schedules write `{}`.
        decode: is_unit(declaration)
            .then(|| quote_spanned!(Span::mixed_site()=> ctx.decode::<#private::NoArguments>().map(|_| Self))),
        states: TokenStream::new(),
        connection: match &plan.options.connection {
            Some(ty) => quote!(::core::option::Option::Some(#private::TypeKey::of::<#ty>)),
            None => quote!(::core::option::Option::None),
        },
    };
    let fields: Vec<_> = plain_fields(declaration)
        .filter_map(|field| Some((field.ident.as_ref()?, field.ty.to_token_stream())))
        .collect();
    let columns = columns::constructor(private, name, &declaration.vis, &fields);
    let job = defaults::job(private, plan);
    let registered = registration::registered(private, plan, &handling);
    let submission = registration::submission(private, plan);
    quote! {
        #(#shared)*
        #[allow(deprecated)]
        const _: () = {
            #columns
            #job
            #registered
            #submission
        };
    }
}

/// Generates a closure that decodes the job and calls its handler, in the form that the options select.
fn handler(private: &TokenStream, Plan { name, options, .. }: &Plan) -> TokenStream {
    let here = Span::mixed_site().located_at(name.span());
    let decoded = quote_spanned!(here=> let job = <#name as #private::Registered>::decode(&ctx)?;);
    if let Some(batch) = &options.batch {
        let (most, by) = (batch.most, batch.by.iter().map(ToString::to_string));
        let wait = u64::try_from(batch.wait.as_millis()).unwrap_or(u64::MAX);
        let call = match (&options.connection, options.blocking) {
            (None, _) => quote_spanned! {here=>
                #private::BatchCall::Plain(|jobs| #private::handle_batch::<#name>(jobs))
            },
            (Some(ty), false) => quote_spanned! {here=>
                #private::BatchCall::Transactional(#private::TransactionalBatch::Async(|connection, jobs| {
                    #private::handle_batch_in::<#name, #ty>(connection, jobs, <#ty as #private::AsyncJobConnection>::of_job)
                }))
            },
            (Some(ty), true) => quote_spanned! {here=>
                #private::BatchCall::Transactional(#private::TransactionalBatch::Blocking(|connection, jobs| {
                    #private::handle_blocking_batch_in::<#name, #ty>(
                        connection,
                        jobs,
                        <#ty as #private::BlockingJobConnection>::of_job,
                    )
                }))
            },
        };
        return quote_spanned! {here=>
            #private::Handler::Batch(&#private::BatchHandler {
                most: #most,
                wait: ::std::time::Duration::from_millis(#wait),
                by: &[#(#by),*],
                call: #call,
            })
        };
    }
    match (&options.connection, options.blocking) {
        (None, false) => quote_spanned! {here=>
            #private::Handler::Async(|ctx| #private::handle::<#name>(ctx))
        },
        (None, true) => quote_spanned! {here=>
            #private::Handler::Blocking(|ctx| {
                #decoded
                <#name as #private::HandleBlocking>::handle(job, ctx)
            })
        },
        (Some(ty), false) => quote_spanned! {here=>
            #private::Handler::AsyncTransactional(|connection, ctx| ::std::boxed::Box::pin(async move {
                #decoded
                let connection = <#ty as #private::AsyncJobConnection>::of_job(connection, &ctx)?;
                <#name as #private::HandleIn<#ty>>::handle(job, connection, ctx).await
            }))
        },
        (Some(ty), true) => quote_spanned! {here=>
            #private::Handler::BlockingTransactional(|connection, ctx| {
                #decoded
                let connection = <#ty as #private::BlockingJobConnection>::of_job(connection, &ctx)?;
                <#name as #private::HandleBlockingIn<#ty>>::handle(job, connection, ctx)
            })
        },
    }
}
