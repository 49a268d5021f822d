//! Generates `output(..)`: reads what the function has returned, with the type of the function.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::{GenericArgument, PathArguments, ReturnType, Type};

use crate::ast::Function;
use crate::validate::Plan;

/// Generates the function, if the return type may have an output that can be named here.
///
/// The type of the output is generic, and the compiler infers it. So the compiler checks whether the output can be read
/// only where the function is called.
pub(crate) fn reader(private: &TokenStream, function: &Function, Plan { name, .. }: &Plan) -> TokenStream {
    let ReturnType::Type(_, returned) = &function.sig.output else { return TokenStream::new() };
    if has_no_output(returned) || !can_be_named(returned.to_token_stream()) {
        return TokenStream::new();
    }
    let vis = &function.vis;
    quote_spanned! {Span::mixed_site()=>
        impl #name {
            /// What the function returned for the job with this id: see `diesel_jobs::output`.
            #[allow(dead_code, private_bounds, private_interfaces, clippy::type_complexity)]
            #vis fn output<'__c, __Output, __C, __M>(
                conn: &'__c mut __C,
                id: impl ::core::convert::Into<#private::JobId>,
            ) -> __C::Output<'__c, ::core::option::Option<__Output>, #private::OutputError>
            where
                #returned: #private::ReturnsOutput<__Output>,
                __Output: #private::serde::de::DeserializeOwned + ::core::marker::Send + 'static,
                __C: #private::EnqueueConnection<__M> + '__c,
            {
                #private::EnqueueConnection::output(conn, id.into())
            }
        }
    }
}

/// Whether it is `()` or some `Result<(), ..>`. Aliases cannot be seen here.
fn has_no_output(returned: &Type) -> bool {
    match returned {
        Type::Tuple(tuple) => tuple.elems.is_empty(),
        Type::Group(group) => has_no_output(&group.elem),
        Type::Paren(paren) => has_no_output(&paren.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| match &segment.arguments {
            PathArguments::AngleBracketed(arguments) => {
                matches!(arguments.args.first(), Some(GenericArgument::Type(Type::Tuple(tuple))) if tuple.elems.is_empty())
            }
            _ => false,
        }),
        _ => false,
    }
}

/// Whether the type means the same outside of the function's signature: it has no lifetime that comes from the
/// parameters.
fn can_be_named(returned: TokenStream) -> bool {
    let mut tokens = returned.into_iter().peekable();
    let mut is_lifetime = false;
    while let Some(token) = tokens.next() {
        let was_lifetime = std::mem::replace(&mut is_lifetime, false);
        match token {
            TokenTree::Ident(ident) if was_lifetime && ident != "static" => return false,
            TokenTree::Punct(punct) if punct.as_char() == '\'' => is_lifetime = true,
            TokenTree::Punct(punct) if punct.as_char() == '&' => match tokens.peek() {
                Some(TokenTree::Punct(next)) if next.as_char() == '\'' => {}
                _ => return false,
            },
            TokenTree::Group(group) if !can_be_named(group.stream()) => return false,
            _ => {}
        }
    }
    true
}
