//! Generates the loading of rows in the handler's transaction, for the parameters `Ref<T>` and `Take<T>`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Type};

use crate::arg::{ArgOptions, Gone, Lock};
use crate::ast::{Argument, Form, Function, Param};

/// Returns the local variable that holds the row of the parameter at this position.
pub(crate) fn local(position: usize) -> Ident {
    format_ident!("row_{position}", span = Span::mixed_site())
}

/// Generates a statement for each row. It loads the row through `connection`, or it ends the attempt.
pub(crate) fn load(private: &TokenStream, function: &Function, connection: &Type) -> Vec<TokenStream> {
    let load = Load { private, connection, is_async: function.sig.asyncness.is_some() };
    let rows = function.params.iter().enumerate().filter_map(|(position, param)| match param {
        Param::Argument(argument) => load.row_of_key(&local(position), argument),
        Param::Take(row, options) => Some(load.free_row(&local(position), row, options)),
        _ => None,
    });
    rows.collect()
}

struct Load<'e> {
    private: &'e TokenStream,
    connection: &'e Type,
    is_async: bool,
}

impl Load<'_> {
    /// `Ref<T>` and `Option<Ref<T>>`.
    fn row_of_key(&self, local: &Ident, argument: &Argument) -> Option<TokenStream> {
        let Form::Row { row, optional } = &argument.form else { return None };
        let Self { private, connection, .. } = self;
        let here = at(row);
        let (field, lock) = (&argument.name, argument.options.lock.is_some());
        let load_row = if self.is_async { quote!(AsyncLoadRow) } else { quote!(LoadRow) };
        let load_row = quote_spanned!(here=> <#connection as #private::#load_row<#row>>::load_row);
        let loaded = self.awaited(quote_spanned!(here=> #load_row(&mut *connection, &job.#field, #lock)));
        Some(match optional {
            true => quote_spanned!(here=> let #local = #private::found_or_none(#loaded)?;),
            false => {
                let gone = gone(argument);
                or_end(
                    here,
                    local,
                    &quote_spanned!(here=> #private::found(#loaded, &job.#field, #private::Gone::#gone)),
                )
            }
        })
    }

    /// `Take<T>`.
    fn free_row(&self, local: &Ident, row: &Type, options: &ArgOptions) -> TokenStream {
        let Self { private, connection, .. } = self;
        let here = at(row);
        let free = match &options.from {
            Some(function) => quote_spanned!(function.span().resolved_at(here)=> #function()),
            None => quote_spanned!(here=> <#row as #private::HasTable>::table()),
        };
        let lock = match options.lock {
            Some((Lock::Wait, _)) => quote!(Wait),
            Some((Lock::NoWait, _)) => quote!(NoWait),
            _ => quote!(Skip),
        };
        let take_row = if self.is_async { quote!(AsyncTakeRow) } else { quote!(TakeRow) };
        let take_row = quote_spanned!(here=> <#connection as #private::#take_row<#row, _>>::take_row);
        let taken = self.awaited(quote_spanned!(here=> #take_row(&mut *connection, #free, #private::RowLock::#lock)));
        or_end(here, local, &quote_spanned!(here=> #private::taken(#taken)))
    }

    fn awaited(&self, call: TokenStream) -> TokenStream {
        if self.is_async { quote!(#call.await) } else { call }
    }
}

/// The variant of `Gone`.
pub(crate) fn gone(argument: &Argument) -> TokenStream {
    match argument.options.gone {
        Some((Gone::Discard, _)) => quote!(Discard),
        Some((Gone::Retry, _)) => quote!(Retry),
        _ => quote!(Cancel),
    }
}

/// The compiler points at the type of the row if it cannot be loaded.
pub(crate) fn at(row: &Type) -> Span {
    row.span().resolved_at(Span::mixed_site())
}

/// `row` is a `Result` with the row, or with how the attempt ends without it.
fn or_end(here: Span, local: &Ident, row: &TokenStream) -> TokenStream {
    quote_spanned! {here=>
        let #local = match #row {
            ::core::result::Result::Ok(row) => row,
            ::core::result::Result::Err(ended) => return ended,
        };
    }
}
