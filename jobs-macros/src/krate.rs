//! What the user calls the crate `diesel-jobs`.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// The path of `diesel_jobs::__private`, everything that generated code may name.
pub(crate) fn private() -> TokenStream {
    match crate_name("diesel-jobs") {
        Ok(FoundCrate::Name(name)) => {
            let name = Ident::new(&name, Span::call_site());
            quote!(::#name::__private)
        }
        // Its own tests and examples; or no manifest to read, in which case the compiler says it best.
        Ok(FoundCrate::Itself) | Err(_) => quote!(::diesel_jobs::__private),
    }
}
