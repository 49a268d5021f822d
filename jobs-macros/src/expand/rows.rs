//! Generates the loading of rows, for the parameters `Ref<T>`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, Type};

use super::arguments;
use crate::arg::Gone;
use crate::ast::{Argument, Form, Function};

/// Returns the local variable that holds the row of an argument.
pub(crate) fn local(argument: &Argument) -> Ident {
    format_ident!("row_{}", argument.name.unraw(), span = Span::mixed_site())
}

/// Generates a statement for each row. It loads the row through `connection`, or it ends the attempt.
pub(crate) fn load(private: &TokenStream, function: &Function, connection: &Type) -> Vec<TokenStream> {
    let is_async = function.sig.asyncness.is_some();
    let (load_row, wait) = match is_async {
        true => (quote!(AsyncLoadRow), quote!(.await)),
        false => (quote!(LoadRow), TokenStream::new()),
    };
    arguments::of(function)
        .filter_map(|argument| {
            let Form::Row { row, optional } = &argument.form else { return None };
            // The compiler points at the type of the row if it cannot be loaded.
            let here = row.span().resolved_at(Span::mixed_site());
            let (local, field, lock) = (local(argument), &argument.name, argument.options.lock.is_some());
            let load = quote_spanned!(here=> <#connection as #private::#load_row<#row>>::load_row);
            let loaded = quote_spanned!(here=> #load(&mut *connection, &job.#field, #lock)#wait);
            Some(match optional {
                true => quote_spanned!(here=> let #local = #private::found_or_none(#loaded)?;),
                false => {
                    let gone = match argument.options.gone {
                        Some((Gone::Discard, _)) => quote!(Discard),
                        Some((Gone::Retry, _)) => quote!(Retry),
                        _ => quote!(Cancel),
                    };
                    quote_spanned! {here=>
                        let #local = match #private::found(#loaded, &job.#field, #private::Gone::#gone) {
                            ::core::result::Result::Ok(row) => row,
                            ::core::result::Result::Err(ended) => return ended,
                        };
                    }
                }
            })
        })
        .collect()
}
