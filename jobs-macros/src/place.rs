//! Detects whether a function is in an `impl` or a `trait`, where no struct can be defined. The compiler does not pass
//! this to the macro, and would report one error for each generated item. So the macro parses the source file. It
//! assumes that an attribute in the first column is in no block, and then does not read the file.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::Signature;
use syn::visit::Visit;

/// Whether a function without `self` is an associated function. Returns false also if the file does not decide it; then
/// the compiler reports the error.
pub(crate) fn is_associated(sig: &Signature) -> bool {
    names_self(sig) || (proc_macro::is_available() && in_source(sig).unwrap_or(false))
}

/// `Self` is valid only in such blocks.
fn names_self(sig: &Signature) -> bool {
    struct Search(bool);
    impl Visit<'_> for Search {
        fn visit_ident(&mut self, ident: &proc_macro2::Ident) {
            self.0 |= ident == "Self";
        }
    }
    let mut search = Search(false);
    search.visit_signature(sig);
    search.0
}

fn in_source(sig: &Signature) -> Option<bool> {
    // The span of the attribute.
    if proc_macro::Span::call_site().start().column() == 1 {
        return Some(false);
    }
    // `unwrap` of proc_macro2 returns the compiler's own span. It panics outside of a macro, which the caller has
    // excluded.
    let source = std::fs::read_to_string(sig.ident.span().unwrap().local_file()?).ok()?;
    Some(is_inside(&source, sig))
}

/// Whether all functions with this name and these parameters are in an `impl` or a `trait`.
fn is_inside(source: &str, sig: &Signature) -> bool {
    let mut found =
        Found { wanted: [sig.ident.to_string(), flat(sig.inputs.to_token_stream())], inside: 0, outside: 0 };
    if let Ok(tokens) = source.parse() {
        found.visit(tokens, false);
    }
    found.inside > 0 && found.outside == 0
}

struct Found {
    wanted: [String; 2],
    inside: usize,
    outside: usize,
}

impl Found {
    fn visit(&mut self, tokens: TokenStream, in_block: bool) {
        // Whether the next braces belong to an `impl` or a `trait`. An `impl` in a return type does not count, because
        // its `fn` came first.
        let mut keyword = None;
        let mut name = None;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    let word = ident.to_string();
                    match word.as_str() {
                        "fn" | "mod" | "struct" | "enum" | "union" => keyword = Some(false),
                        "impl" | "trait" => keyword = keyword.or(Some(true)),
                        _ => {}
                    }
                    name = Some(word);
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => keyword = None,
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    self.visit(group.stream(), keyword.take() == Some(true));
                }
                TokenTree::Group(group) => {
                    if keyword == Some(false)
                        && name.take().as_ref() == Some(&self.wanted[0])
                        && flat(group.stream()) == self.wanted[1]
                    {
                        *(if in_block { &mut self.inside } else { &mut self.outside }) += 1;
                    }
                    self.visit(group.stream(), in_block);
                }
            }
        }
    }
}

/// Returns the tokens as text without a trailing comma. The spacing and that comma depend on where the tokens come
/// from.
fn flat(tokens: TokenStream) -> String {
    let mut text = String::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                text.push_str(&format!(" {:?} {} end", group.delimiter(), flat(group.stream())));
            }
            other => text.push_str(&format!(" {other}")),
        }
    }
    text.trim_end_matches(" ,").to_owned()
}

#[cfg(test)]
mod tests {
    use syn::Signature;

    fn inside(source: &str) -> bool {
        let sig: Signature = syn::parse_str("async fn send(to: String, Many(x): Many<[u8; 2]>)").unwrap();
        super::is_inside(source, &sig)
    }

    const JOB: &str = "#[job] pub async fn send( to :String, Many(x): Many<[u8;2]>, ) -> Result<(), E> { let _ = {}; }";

    #[test]
    fn functions_in_impls_and_traits_are_found() {
        for block in [
            "impl Mailer",
            "unsafe impl<T: Into<String>> Mailer<T> where T: Send",
            "pub trait Mail: Sized",
            "mod m { fn f() -> impl Mail { 1 } impl crate::Mailer",
        ] {
            let end = if block.starts_with("mod") { "}" } else { "" };
            assert!(inside(&format!("struct Mailer; {block} {{ fn other() {{}} {JOB} }} {end}")), "{block}");
        }
    }

    #[test]
    fn functions_of_modules_and_functions_are_not() {
        for source in [
            format!("mod m {{ {JOB} }}"),
            format!("impl A {{ fn other() {{ {JOB} }} }}"),
            format!("fn other() -> impl Fn() {{ {JOB} }}"),
            format!("type A = impl B; mod m {{ {JOB} }}"),
            format!("impl A {{ fn send(to: u8) {{}} }} mod m {{ {JOB} }}"),
            // It is not known which of the two functions has the attribute.
            format!("impl A {{ {JOB} }} mod m {{ {JOB} }}"),
            "macro_rules! m { ($name:ident) => { impl A { fn $name() {} } } }".to_owned(),
            "impl A { fn send(".to_owned(),
        ] {
            assert!(!inside(&source), "{source}");
        }
    }
}
