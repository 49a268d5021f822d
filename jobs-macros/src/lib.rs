//! The macros of `jobs`.

use proc_macro::TokenStream;

/// Placeholder.
#[proc_macro_attribute]
pub fn job(_attr: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Placeholder.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(_item: TokenStream) -> TokenStream {
    TokenStream::new()
}
