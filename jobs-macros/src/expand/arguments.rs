//! Generates the struct that holds a function's arguments, `new`, and its JSON form.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Ident};

use crate::ast::{Argument, Form, Function, Param};
use crate::validate::Plan;

/// Returns the arguments of a function, in their order.
pub(crate) fn of(function: &Function) -> impl Iterator<Item = &Argument> + Clone {
    function.params.iter().filter_map(|param| match param {
        Param::Argument(argument) => Some(argument),
        _ => None,
    })
}

/// Returns the type of an argument's field.
pub(crate) fn stored(private: &TokenStream, argument: &Argument) -> TokenStream {
    match &argument.form {
        Form::Row { row, .. } => quote_spanned!(row.span()=> #private::Key<#row>),
        Form::Value(ty) | Form::String(ty) => quote!(#ty),
        Form::Str => quote_spanned!(argument.name.span()=> ::std::string::String),
        Form::Slice(element) => quote_spanned!(element.span()=> ::std::vec::Vec<#element>),
    }
}

/// Generates the struct. Without arguments it is a unit struct, so that its name alone is a value of the job.
pub(crate) fn structure(private: &TokenStream, function: &Function, plan: &Plan) -> TokenStream {
    let Plan { name, .. } = plan;
    let Function { attrs, vis, sig, .. } = function;
    let carried = carried(attrs);
    let has_docs = attrs.iter().any(|attr| attr.path().is_ident("doc"));
    let docs = (!has_docs).then(|| {
        let docs = format!("The job that runs [`{0}`](fn@{0}).", sig.ident.unraw());
        quote!(#[doc = #docs])
    });
    let fields = of(function).map(|argument| {
        let (field, ty) = (&argument.name, stored(private, argument));
        quote!(#vis #field: #ty)
    });
    let body = match of(function).next() {
        Some(_) => quote!({ #(#fields,)* }),
        None => quote!(;),
    };
    quote! {
        #(#carried)*
        #docs
        #[allow(missing_docs, missing_debug_implementations, missing_copy_implementations)]
        #vis struct #name #body
    }
}

/// Generates `new(..)`.
pub(crate) fn constructor(private: &TokenStream, function: &Function, Plan { name, .. }: &Plan) -> TokenStream {
    let vis = &function.vis;
    let fields: Vec<_> = of(function).map(|argument| &argument.name).collect();
    let params = of(function).map(|argument| {
        let (field, ty) = (&argument.name, stored(private, argument));
        match argument.form {
            Form::Str | Form::String(_) | Form::Row { .. } => quote!(#field: impl ::core::convert::Into<#ty>),
            Form::Value(_) | Form::Slice(_) => quote!(#field: #ty),
        }
    });
    let values = of(function).map(|argument| {
        let field = &argument.name;
        match argument.form {
            Form::Str | Form::String(_) | Form::Row { .. } => quote!(::core::convert::Into::into(#field)),
            Form::Value(_) | Form::Slice(_) => quote!(#field),
        }
    });
    quote! {
        impl #name {
            /// The job with these arguments, to be enqueued.
            #[must_use]
            #[allow(dead_code, clippy::too_many_arguments, clippy::new_without_default)]
            #vis fn new(#(#params),*) -> Self {
                Self { #(#fields: #values),* }
            }
        }
    }
}

/// Generates `Serialize` and `Deserialize`, through `Argument`. Its documentation explains why serde's derives are not
/// used. Names of generics and items start with `__`, because they share their scope with the user's types.
pub(crate) fn json(private: &TokenStream, function: &Function, plan: &Plan) -> TokenStream {
    let Plan { name, kind, .. } = plan;
    let serde = quote!(#private::serde);
    let fields: Vec<&Ident> = of(function).map(|argument| &argument.name).collect();
    let keys: Vec<String> = fields.iter().map(|field| field.unraw().to_string()).collect();
    let types: Vec<TokenStream> = of(function).map(|argument| stored(private, argument)).collect();
    // These locals are not named after the fields: they share a scope and hygiene with other generated locals.
    let slots: Vec<Ident> =
        (0..fields.len()).map(|i| format_ident!("argument_{i}", span = Span::mixed_site())).collect();
    let count = fields.len();
    let type_name = name.unraw().to_string();
    let expecting = format!("the arguments of job `{kind}`");
    let serialize = quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl #serde::Serialize for #name {
            fn serialize<__S: #serde::Serializer>(&self, serializer: __S) -> ::core::result::Result<__S::Ok, __S::Error> {
                #[allow(unused_mut)]
                let mut fields = #serde::Serializer::serialize_struct(serializer, #type_name, #count)?;
                #(<#types as #private::Argument>::write(&self.#fields, #keys, &mut fields)?;)*
                #serde::ser::SerializeStruct::end(fields)
            }
        }
    };
    if fields.is_empty() {
        return quote_spanned! {Span::mixed_site()=>
            #serialize
            #[automatically_derived]
            impl<'__de> #serde::Deserialize<'__de> for #name {
                fn deserialize<__D: #serde::Deserializer<'__de>>(deserializer: __D) -> ::core::result::Result<Self, __D::Error> {
                    <#private::NoArguments as #serde::Deserialize>::deserialize(deserializer).map(|_| Self)
                }
            }
        };
    }
    quote_spanned! {Span::mixed_site()=>
        #serialize
        #[automatically_derived]
        impl<'__de> #serde::Deserialize<'__de> for #name {
            fn deserialize<__D: #serde::Deserializer<'__de>>(deserializer: __D) -> ::core::result::Result<Self, __D::Error> {
                struct __Arguments;
                impl<'__de> #serde::de::Visitor<'__de> for __Arguments {
                    type Value = #name;
                    fn expecting(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                        f.write_str(#expecting)
                    }
                    fn visit_map<__A: #serde::de::MapAccess<'__de>>(
                        self,
                        mut map: __A,
                    ) -> ::core::result::Result<Self::Value, __A::Error> {
                        #(let mut #slots = ::core::option::Option::None;)*
                        while let ::core::option::Option::Some(key) =
                            #serde::de::MapAccess::next_key::<::std::string::String>(&mut map)?
                        {
                            match ::std::string::String::as_str(&key) {
                                #(#keys => <#types as #private::Argument>::read(&mut #slots, #keys, &mut map)?,)*
                                _ => { #serde::de::MapAccess::next_value::<#serde::de::IgnoredAny>(&mut map)?; }
                            }
                        }
                        ::core::result::Result::Ok(#name {
                            #(#fields: <#types as #private::Argument>::take(#slots, #keys)?,)*
                        })
                    }
                }
                #serde::Deserializer::deserialize_struct(deserializer, #type_name, &[#(#keys),*], __Arguments)
            }
        }
    }
}

/// Returns the attributes that the struct takes over from the function.
fn carried(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attrs.iter().filter(|attr| ["doc", "cfg", "allow", "deprecated"].iter().any(|name| attr.path().is_ident(name)))
}
