//! Finds the name under which the user depends on the crate `diesel-jobs`.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// Returns the path of `diesel_jobs::__private`. Generated code uses only items in it.
pub(crate) fn private() -> TokenStream {
    match crate_name("diesel-jobs") {
        Ok(FoundCrate::Name(name)) => {
            let name = Ident::new(&name, Span::call_site());
            quote!(::#name::__private)
        }
        // The crate's own tests and examples. Or the manifest cannot be read; then the compiler reports the missing
        // crate.
        Ok(FoundCrate::Itself) | Err(_) => quote!(::diesel_jobs::__private),
    }
}
