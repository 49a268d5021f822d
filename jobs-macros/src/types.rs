//! Examines the type of a parameter: its last name, the type inside it, and whether it borrows.

use syn::visit::Visit;
use syn::{GenericArgument, Lifetime, Path, PathArguments, Type, TypeImplTrait, TypeInfer, TypeReference};

/// Returns the type without the parentheses and invisible groups around it.
pub(crate) fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        _ => ty,
    }
}

/// Whether the last segment of the path is this name, without generic arguments.
pub(crate) fn named(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|last| last.ident == name && last.arguments.is_none())
}

/// Returns the `T` of `State<T>`.
pub(crate) fn state(path: &Path) -> Option<&Type> {
    inside(path, "State")
}

/// Returns the `T` of `Ref<T>` or `Option<Ref<T>>`, and whether it is the second.
pub(crate) fn row(path: &Path) -> Option<(&Type, bool)> {
    if let Some(row) = inside(path, "Ref") {
        return Some((row, false));
    }
    match plain(inside(path, "Option")?) {
        Type::Path(path) => inside(&path.path, "Ref").map(|row| (row, true)),
        _ => None,
    }
}

/// Returns the `T` of a path that ends with `name<T>`.
pub(crate) fn inside<'p>(path: &'p Path, name: &str) -> Option<&'p Type> {
    let last = path.segments.last().filter(|last| last.ident == name)?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) if arguments.args.len() == 1 => match arguments.args.first()? {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

/// Returns an error if the type borrows, or if it contains `impl Trait` or `_`.
pub(crate) fn owned(ty: &Type) -> syn::Result<()> {
    let mut search = Borrows(None);
    search.visit_type(ty);
    search.0.map_or(Ok(()), Err)
}

struct Borrows(Option<syn::Error>);

impl Borrows {
    fn found(&mut self, tokens: impl quote::ToTokens, message: &str) {
        self.0.get_or_insert_with(|| syn::Error::new_spanned(tokens, message));
    }
}

impl Visit<'_> for Borrows {
    fn visit_type_reference(&mut self, reference: &TypeReference) {
        self.found(reference, "a job owns its arguments: write the owned type here, such as `String` for `&str`");
    }

    fn visit_lifetime(&mut self, lifetime: &Lifetime) {
        if lifetime.ident != "static" {
            self.found(lifetime, "a job owns its arguments: write a type without this lifetime");
        }
    }

    fn visit_type_impl_trait(&mut self, ty: &TypeImplTrait) {
        self.found(ty, "a job's arguments are stored and read back: write the concrete type instead of `impl Trait`");
    }

    fn visit_type_infer(&mut self, ty: &TypeInfer) {
        self.found(ty, "write the type out");
    }
}
