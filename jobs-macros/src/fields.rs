//! The fields of a type with `#[derive(Job)]`: the secret ones, and those that serde stores under their own names.

use syn::ext::IdentExt as _;
use syn::{Attribute, Data, Field, Fields, Meta, Token};

use crate::arg::ArgOptions;
use crate::ast::Declaration;
use crate::errors::Errors;

/// Returns the names of the fields with `#[arg(secret)]`. The values are found by these names in the stored JSON
/// object, so they must be the names that serde writes.
pub(crate) fn secrets(declaration: &Declaration, errors: &mut Errors) -> Vec<String> {
    let fields: Vec<_> = match &declaration.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| variant.fields.iter()).collect(),
        Data::Union(_) => Vec::new(),
    };
    let mut secrets = Vec::new();
    for field in fields {
        let options = errors.keep(ArgOptions::read(&field.attrs)).unwrap_or_default();
        if let Some(span) = options.gone.map(|(_, span)| span).or(options.lock.map(|(_, span)| span)) {
            let message = "`gone` and `lock` are about a parameter `Ref<T>` of a function; a type stores a `Key<T>` and loads the row in `handle`";
            errors.push(syn::Error::new(span, message));
        }
        let secret = options.secret;
        match &field.ident {
            _ if !secret => {}
            Some(name) if matches!(declaration.data, Data::Struct(_)) => {
                if let Some(attr) = declaration.attrs.iter().chain(&field.attrs).find(|attr| changes_json(attr)) {
                    errors.at(attr, "a secret is found by its field's name, and this may store it elsewhere: leave it out of a type with secrets");
                }
                secrets.push(name.unraw().to_string());
                // A job of SQL, or of an earlier program, may have the value under one of these.
                secrets.extend(field.attrs.iter().flat_map(serde_aliases));
            }
            _ => errors.at(field, "`#[arg(secret)]` stands on a named field of a struct"),
        }
    }
    secrets
}

/// The names under which serde also reads the field.
fn serde_aliases(attr: &Attribute) -> Vec<String> {
    let mut names = Vec::new();
    if let Meta::List(list) = &attr.meta
        && attr.path().is_ident("serde")
    {
        // What this cannot parse is refused by `changes_json`.
        let _ = list.parse_nested_meta(|option| {
            if option.path.is_ident("alias") {
                names.push(option.value()?.parse::<syn::LitStr>()?.value());
            } else if option.input.peek(Token![=]) {
                option.value()?.parse::<syn::Expr>()?;
            }
            Ok(())
        });
    }
    names
}

/// Returns the named fields of a struct, if its JSON is an object of just these names. Otherwise returns none.
pub(crate) fn plain_fields(declaration: &Declaration) -> impl Iterator<Item = &Field> {
    let fields = match &declaration.data {
        Data::Struct(data) => Some(&data.fields),
        _ => None,
    };
    let fields = fields.into_iter().flatten();
    let plain = !declaration.attrs.iter().chain(fields.clone().flat_map(|field| &field.attrs)).any(changes_json);
    fields.filter(move |field| plain && field.ident.is_some())
}

/// Whether serde may store a field under another name or in another form.
fn changes_json(attr: &Attribute) -> bool {
    const HARMLESS: [&str; 4] = ["default", "alias", "deny_unknown_fields", "crate"];
    let Meta::List(list) = &attr.meta else { return false };
    let mut harmless = true;
    // Options that this cannot parse count as changes.
    let parsed = list.parse_nested_meta(|option| {
        harmless &= HARMLESS.iter().any(|name| option.path.is_ident(name));
        if option.input.peek(Token![=]) {
            option.value()?.parse::<syn::Expr>()?;
        } else if option.input.peek(syn::token::Paren) {
            option.input.parse::<proc_macro2::TokenTree>()?;
        }
        Ok(())
    });
    attr.path().is_ident("serde") && !(harmless && parsed.is_ok())
}

/// Whether the type is a unit struct. It decodes from `{}`.
pub(crate) fn is_unit(declaration: &Declaration) -> bool {
    matches!(&declaration.data, Data::Struct(data) if matches!(data.fields, Fields::Unit))
}
