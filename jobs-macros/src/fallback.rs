//! The code that is generated after an error: a stub type of the same name that implements `Job`. It prevents further
//! errors in the rest of the program. The program does not compile, so the stub never runs.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::ast::{Declaration, Form, Function, Param};
use crate::validate::Plan;

/// Returns the error and a stub of the function's struct. Without a plan it returns only the error, because the name of
/// the struct is not known.
pub(crate) fn function(
    private: &TokenStream,
    function: &Function,
    plan: Option<&Plan>,
    error: &syn::Error,
) -> TokenStream {
    let error = error.to_compile_error();
    let Some(Plan { name, kind, shared, .. }) = plan.filter(|_| !function.associated) else { return error };
    let vis = &function.vis;
    // Types that contain the function's generics are not valid outside of the function.
    let known = function.sig.generics.params.is_empty();
    let fields = function.params.iter().filter_map(|param| match param {
        Param::Argument(argument) if known => {
            let field = &argument.name;
            let ty = match &argument.form {
                Form::Value(ty) | Form::String(ty) => quote!(#ty),
                Form::Str => quote!(::std::string::String),
                Form::Slice(element) => quote!(::std::vec::Vec<#element>),
                Form::Row { row, .. } => quote!(#private::Key<#row>),
            };
            Some(quote!(#vis #field: #ty))
        }
        _ => None,
    });
    let fields: Vec<TokenStream> = fields.collect();
    let body = if fields.is_empty() { quote!(;) } else { quote!({ #(#fields,)* }) };
    // The error may be about which parameters are arguments. So `new` accepts any type for each of them.
    let params =
        function.params.iter().filter(|param| matches!(param, Param::Argument(_) | Param::Refused(_))).enumerate().map(
            |(i, _)| {
                let param = format_ident!("_argument{i}");
                quote!(#param: impl ::core::marker::Sized)
            },
        );
    let json = json(private, name);
    let job = job(private, name, kind);
    quote! {
        #error

        #(#shared)*
        #[allow(missing_docs, dead_code)]
        #vis struct #name #body

        #(#shared)*
        const _: () = {
            #[allow(dead_code)]
            impl #name {
                #vis fn new(#(#params),*) -> Self {
                    ::core::unreachable!()
                }
            }
            #json
            #job
        };
    }
}

/// Returns the error and a stub of `impl Job`. The user's own code derives serde's traits.
pub(crate) fn declaration(
    private: &TokenStream,
    declaration: &Declaration,
    Plan { name, kind, shared, .. }: &Plan,
    error: &syn::Error,
) -> TokenStream {
    let error = error.to_compile_error();
    if !declaration.generics.params.is_empty() || matches!(declaration.data, syn::Data::Union(_)) {
        return error;
    }
    let job = job(private, name, kind);
    quote! {
        #error
        #(#shared)*
        const _: () = { #job };
    }
}

fn job(private: &TokenStream, name: &syn::Ident, kind: &str) -> TokenStream {
    quote_spanned! {Span::mixed_site()=>
        impl #private::Job for #name {
            const KIND: &'static str = #kind;
        }
        impl #private::Registered for #name {
            const REGISTRATION: #private::Registration = #private::Registration {
                kind: #kind,
                type_name: #kind,
                location: "",
                options: #private::JobOptions::new(),
                handler: #private::Handler::Blocking(|_| ::core::unreachable!()),
                schedule: ::core::option::Option::None,
                states: &[],
                connection: ::core::option::Option::None,
                decodes: |_| ::core::result::Result::Ok(()),
                version: 1,
                earlier: &[],
                aliases: &[],
                on_discarded: ::core::option::Option::None,
            };
        }
    }
}

fn json(private: &TokenStream, name: &syn::Ident) -> TokenStream {
    let serde = quote!(#private::serde);
    quote_spanned! {Span::mixed_site()=>
        impl #serde::Serialize for #name {
            fn serialize<__S: #serde::Serializer>(&self, _: __S) -> ::core::result::Result<__S::Ok, __S::Error> {
                ::core::unreachable!()
            }
        }
        impl<'__de> #serde::Deserialize<'__de> for #name {
            fn deserialize<__D: #serde::Deserializer<'__de>>(_: __D) -> ::core::result::Result<Self, __D::Error> {
                ::core::unreachable!()
            }
        }
    }
}
