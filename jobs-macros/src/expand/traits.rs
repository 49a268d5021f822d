//! Generates `Debug`, `Clone` and `PartialEq` for the struct of a function's arguments. Each exists if all arguments
//! have it. `argument_traits` in `diesel-jobs-core` explains how.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Ident;
use syn::ext::IdentExt;

use super::arguments;
use crate::ast::Function;
use crate::validate::Plan;

pub(crate) fn traits(private: &TokenStream, function: &Function, Plan { name, .. }: &Plan) -> TokenStream {
    let fields: Vec<&Ident> = arguments::of(function).map(|argument| &argument.name).collect();
    let types: Vec<TokenStream> =
        arguments::of(function).map(|argument| arguments::stored(private, argument)).collect();
    let keys: Vec<String> = fields.iter().map(|field| field.unraw().to_string()).collect();
    let printed_types: Vec<TokenStream> = arguments::of(function)
        .filter(|argument| !argument.options.secret)
        .map(|argument| arguments::stored(private, argument))
        .collect();
    let printed: Vec<TokenStream> = arguments::of(function)
        .map(|argument| {
            let (field, ty) = (&argument.name, arguments::stored(private, argument));
            match argument.options.secret {
                true => quote_spanned!(Span::mixed_site()=> &#private::Redacted),
                false => {
                    quote_spanned!(Span::mixed_site()=> <#ty as #private::DebugArgument<'_>>::as_debug(&self.#field))
                }
            }
        })
        .collect();
    let type_name = name.unraw().to_string();
    let value = match fields.is_empty() {
        true => quote_spanned!(Span::mixed_site()=> Self),
        false => {
            quote_spanned!(Span::mixed_site()=> Self { #(#fields: <#types as #private::CloneArgument<'_>>::clone_argument(&self.#fields)),* })
        }
    };
    quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl ::core::fmt::Debug for #name
        where
            #(for<'__a> #printed_types: #private::DebugArgument<'__a>,)*
        {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(#type_name)#(.field(#keys, #printed))*.finish()
            }
        }
        #[automatically_derived]
        impl ::core::clone::Clone for #name
        where
            #(for<'__a> #types: #private::CloneArgument<'__a>,)*
        {
            fn clone(&self) -> Self {
                #value
            }
        }
        #[automatically_derived]
        impl ::core::cmp::PartialEq for #name
        where
            #(for<'__a> #types: #private::PartialEqArgument<'__a>,)*
        {
            #[allow(unused_variables)]
            fn eq(&self, other: &Self) -> bool {
                true #(&& <#types as #private::PartialEqArgument<'_>>::is_equal(&self.#fields, &other.#fields))*
            }
        }
    }
}
