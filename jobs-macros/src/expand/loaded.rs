//! Generates the handler of a function that takes rows and no connection.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::{Ident, Type};

use super::rows::{at, gone, local};
use crate::ast::{Argument, Form, Function, Param};

/// Generates the `Handler::WithRows`. `call` is the call of the function and the conversion of what it returns.
pub(crate) fn handler(
    private: &TokenStream,
    function: &Function,
    job: &Ident,
    here: Span,
    call: &TokenStream,
) -> TokenStream {
    let rows: Vec<Row<'_>> = rows(function).collect();
    let loaders = rows.iter().map(|row| row.loaders(private));
    let connections = rows.iter().map(|row| {
        let loaders = row.name();
        quote_spanned!(here=> #private::Loaders::connections(&#loaders()))
    });
    let loads = rows.iter().map(|row| row.load(private));
    let number = rows.len();
    let loaded = match function.sig.asyncness.is_some() {
        true => quote_spanned!(here=> #private::LoadedHandler::Async(::std::boxed::Box::pin(async move { #call }))),
        false => quote_spanned!(here=> #private::LoadedHandler::Blocking(::std::boxed::Box::new(move || { #call }))),
    };
    quote_spanned! {here=>
        {
            #(#loaders)*
            #private::Handler::WithRows(&#private::RowHandler {
                connections: || #private::in_common(&[#(#connections),*]),
                rows: #number,
                load: |connection, ctx| ::std::boxed::Box::pin(async move {
                    let job = <#job as #private::Registered>::decode(&ctx).map_err(::core::result::Result::Err)?;
                    #(#loads)*
                    ::core::result::Result::Ok(#loaded)
                }),
            })
        }
    }
}

/// Whether the function has a parameter `Ref<T>` or `Option<Ref<T>>`.
pub(crate) fn has_rows(function: &Function) -> bool {
    rows(function).next().is_some()
}

fn rows(function: &Function) -> impl Iterator<Item = Row<'_>> {
    function.params.iter().enumerate().filter_map(|(position, param)| match param {
        Param::Argument(argument) => match &argument.form {
            Form::Row { row, optional } => Some(Row { position, argument, row, optional: *optional }),
            _ => None,
        },
        _ => None,
    })
}

struct Row<'f> {
    position: usize,
    argument: &'f Argument,
    row: &'f Type,
    optional: bool,
}

impl Row<'_> {
    /// The name of the function that returns the row's loaders. Macro hygiene does not apply to items, so this is a
    /// name that users do not write.
    fn name(&self) -> Ident {
        format_ident!("__diesel_jobs_row_{}", self.position, span = Span::mixed_site())
    }

    fn loaders(&self, private: &TokenStream) -> TokenStream {
        let (row, here, name) = (self.row, at(self.row), self.name());
        let loadable = quote_spanned!(here=> (&#private::Loadable::<#row>::NEW));
        quote_spanned! {here=>
            fn #name() -> #private::Loaders<#row> {
                #[allow(unused_imports)]
                use #private::{
                    NotThroughAsyncPg as _, NotThroughPg as _, NotThroughSqlite as _, ThroughAsyncPg as _,
                    ThroughPg as _, ThroughSqlite as _,
                };
                #private::loaders::<#row, _>((#loadable.through_async_pg(), #loadable.through_pg(), #loadable.through_sqlite()))
            }
        }
    }

    fn load(&self, private: &TokenStream) -> TokenStream {
        let (here, name, local, field) = (at(self.row), self.name(), local(self.position), &self.argument.name);
        // As a method, `load` would be that of Diesel's `RunQueryDsl`, where that is in scope.
        let load = quote_spanned!(here=> #private::Loaders::load);
        let loaded = quote_spanned!(here=> #load(&#name(), &mut *connection, &job.#field).await);
        let row = match self.optional {
            true => quote_spanned!(here=> #private::found_or_none(#loaded).map_err(::core::result::Result::Err)?),
            false => {
                let gone = gone(self.argument);
                quote_spanned!(here=> #private::found(#loaded, &job.#field, #private::Gone::#gone)?)
            }
        };
        quote_spanned!(here=> let #local = #row;)
    }
}
