//! Generates `columns(..)`: the arguments as expressions of a query, for `enqueue_each`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, Visibility};

/// Generates the function for a type with these arguments: their names and types. Without arguments there is nothing to
/// select.
///
/// The types of the expressions are generic, so that the compiler checks whether a query can provide an argument only
/// where the function is called.
pub(crate) fn constructor(
    private: &TokenStream,
    name: &Ident,
    vis: &Visibility,
    arguments: &[(&Ident, TokenStream)],
) -> TokenStream {
    if arguments.is_empty() {
        return TokenStream::new();
    }
    let named = |form: &str| -> Vec<Ident> {
        (0..arguments.len()).map(|i| format_ident!("__{form}{i}", span = Span::mixed_site())).collect()
    };
    let (generics, expressions) = (named("Column"), named("Expression"));
    let fields: Vec<&Ident> = arguments.iter().map(|(field, _)| *field).collect();
    let keys = fields.iter().map(|field| field.unraw().to_string());
    let bound =
        |((_, ty), expression): (&(&Ident, TokenStream), &Ident)| quote!(#private::IntoColumn<#ty, #expression>);
    let bounds: Vec<TokenStream> = arguments.iter().zip(&expressions).map(bound).collect();
    quote_spanned! {Span::mixed_site()=>
        impl #name {
            /// A job for each row of a query, with arguments from expressions of that query: see
            /// `EnqueueEach::enqueue_each`.
            #[allow(dead_code, clippy::too_many_arguments, clippy::type_complexity)]
            #vis fn columns<#(#generics: #bounds,)* #(#expressions),*>(
                #(#fields: #generics),*
            ) -> #private::JobColumns<Self, (#(#expressions,)*)> {
                #private::JobColumns::new(
                    (#(<#generics as #bounds>::into_column(#fields),)*),
                    &[#((
                        #keys,
                        <#generics as #bounds>::in_sqlite as fn(&str) -> ::std::string::String,
                        <#generics as #bounds>::IS_JSON,
                    )),*],
                )
            }
        }
    }
}
