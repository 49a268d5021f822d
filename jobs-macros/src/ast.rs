//! Parses the item below the attribute and classifies its parameters. If a parameter is wrong, its error is stored in
//! its place, and `validate` reports the error. So one wrong parameter does not hide the others.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, DeriveInput, FnArg, Ident, Pat, PatIdent, PatTupleStruct, PatType, Path, Signature, Token, Type,
    TypeReference, Visibility,
};

use crate::arg::ArgOptions;
use crate::place;
use crate::types::{inside, named, owned, plain, row, state};

/// The parts of a function that the macro reads. It does not parse the body: the compiler does.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) params: Vec<Param>,
    /// Whether it is in an `impl` or a `trait`, where no struct can be defined.
    pub(crate) associated: bool,
}

/// What the generated handler passes for a parameter.
pub(crate) enum Param {
    /// A field of the job.
    Argument(Argument),
    /// The worker's state of the type `inner`. `whole` is the type as it is written: `State<inner>`.
    State { whole: Type, inner: Type },
    /// The context of the running job.
    Context { by_reference: bool },
    /// The connection, of this type.
    Connection(Type),
    /// A free row of this type.
    Take(Type, ArgOptions),
    /// Nothing: it cannot be a parameter of a job.
    Refused(syn::Error),
}

/// A parameter that is stored with the job.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) form: Form,
    pub(crate) options: ArgOptions,
}

/// How an argument is stored, and how it is passed to the function.
pub(crate) enum Form {
    /// `T`, stored as `T`.
    Value(Type),
    /// `String`, stored as `String`.
    String(Type),
    /// `&str`, stored as `String`.
    Str,
    /// `&[T]`, stored as `Vec<T>`.
    Slice(Type),
    /// `Ref<T>` or `Option<Ref<T>>`, stored as `Key<T>`.
    Row { row: Type, optional: bool },
}

impl Parse for Function {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if input.peek(Token![struct]) || input.peek(Token![enum]) {
            return Err(input.error("`#[job]` goes above a function; above a type write `#[derive(Job)]`"));
        }
        let sig: Signature =
            input.parse().map_err(|error| syn::Error::new(error.span(), "`#[job]` goes above a function"))?;
        if input.peek(Token![;]) {
            return Err(syn::Error::new_spanned(&sig.ident, "a job needs a body: `#[job]` goes above a free function"));
        }
        input.parse::<TokenStream>()?;
        let params = sig
            .inputs
            .iter()
            .map(|input| match input {
                FnArg::Typed(param) => Param::of(param).unwrap_or_else(Param::Refused),
                // `validate` reports the reason.
                FnArg::Receiver(receiver) => {
                    Param::Refused(syn::Error::new_spanned(receiver, "not a parameter of a job"))
                }
            })
            .collect();
        let associated = sig.receiver().is_some() || place::is_associated(&sig);
        Ok(Self { attrs, vis, sig, params, associated })
    }
}

/// Returns the error message for a function in an `impl` or a `trait`.
pub(crate) fn free_function(sig: &Signature) -> String {
    let (ident, asyncness) = (&sig.ident, if sig.asyncness.is_some() { "async " } else { "" });
    format!(
        "a job must be a free function, but `{ident}` is in an `impl` or a `trait`\n\
         write `#[job] {asyncness}fn {ident}(..)` beside the block, with what it needs as arguments and as `State<T>`;\n\
         or make the type itself the job: `#[derive(Job)]` above it, and `impl Handle` with `async fn handle(self, ctx: JobContext)`"
    )
}

impl Param {
    fn of(param: &PatType) -> syn::Result<Self> {
        if let Some(cfg) =
            param.attrs.iter().find(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr"))
        {
            return Err(syn::Error::new_spanned(
                cfg,
                "a job's arguments cannot depend on `cfg`, because another build may run the stored jobs; put `cfg` on the whole function",
            ));
        }
        let options = ArgOptions::read(&param.attrs)?;
        let mut parsed = Self::of_type(&param.pat, plain(&param.ty))?;
        match (&mut parsed, param.attrs.iter().find(|attr| attr.path().is_ident("arg"))) {
            (Self::Argument(argument), _) => {
                let row = match argument.form {
                    Form::Row { optional, .. } => Some(optional),
                    _ => None,
                };
                options.fit_argument(row)?;
                argument.options = options;
            }
            (Self::Take(..), Some(attr)) if options.secret => {
                return Err(syn::Error::new_spanned(
                    attr,
                    "a `Take<T>` is not stored with the job, so it cannot be secret",
                ));
            }
            (Self::Take(_, taken), _) => {
                options.fit_take()?;
                *taken = options;
            }
            (_, Some(attr)) => {
                return Err(syn::Error::new_spanned(
                    attr,
                    "`#[arg(..)]` is only for arguments, which are stored with the job",
                ));
            }
            (_, None) => {}
        }
        Ok(parsed)
    }

    fn of_type(pat: &Pat, ty: &Type) -> syn::Result<Self> {
        match ty {
            Type::Reference(reference) => Self::of_reference(pat, reference),
            Type::Path(path) if named(&path.path, "JobContext") => Ok(Self::Context { by_reference: false }),
            Type::Path(path) if state(&path.path).is_some() => {
                let inner = state(&path.path).unwrap_or(ty);
                owned(inner)?;
                Ok(Self::State { whole: ty.clone(), inner: inner.clone() })
            }
            Type::Path(path) if inside(&path.path, "Take").is_some() => {
                let row = inside(&path.path, "Take").unwrap_or(ty);
                owned(row)?;
                Ok(Self::Take(row.clone(), ArgOptions::default()))
            }
            Type::Path(path) if row(&path.path).is_some() => {
                let (row, optional) = row(&path.path).unwrap_or((ty, false));
                owned(row)?;
                let form = Form::Row { row: row.clone(), optional };
                // `Ref(user): Ref<User>` names the argument, too.
                match pat {
                    Pat::TupleStruct(PatTupleStruct { path, elems, .. })
                        if !optional && elems.len() == 1 && named(path, "Ref") =>
                    {
                        argument(&elems[0], form)
                    }
                    _ => argument(pat, form),
                }
            }
            Type::Path(path) if named(&path.path, "String") => argument(pat, Form::String(ty.clone())),
            _ => {
                owned(ty)?;
                argument(pat, Form::Value(ty.clone()))
            }
        }
    }

    fn of_reference(pat: &Pat, reference: &TypeReference) -> syn::Result<Self> {
        let refuse = |message: &str| Err(syn::Error::new_spanned(reference, message));
        let inner = plain(&reference.elem);
        let is = |name| matches!(inner, Type::Path(path) if named(&path.path, name));
        let holds_state = matches!(inner, Type::Path(path) if state(&path.path).is_some());
        if let Some(lifetime) = &reference.lifetime {
            return Err(syn::Error::new_spanned(
                lifetime,
                "what a job borrows lives only as long as the attempt: leave the lifetime out",
            ));
        }
        if holds_state {
            return refuse("a state is taken by value, as `State(x): State<T>`");
        }
        match (reference.mutability, inner) {
            (None, _) if is("JobContext") => Ok(Self::Context { by_reference: true }),
            (None, _) if is("str") => argument(pat, Form::Str),
            (None, Type::Slice(slice)) => {
                owned(&slice.elem)?;
                argument(pat, Form::Slice((*slice.elem).clone()))
            }
            (None, _) => refuse(
                "a job owns its arguments: take this one by value; the only references are `&str`, `&[T]`, `&JobContext` \
                 and `&mut` to the connection",
            ),
            (Some(_), _) if is("JobContext") => refuse("the context is taken as `&JobContext` or `JobContext`"),
            (Some(_), Type::Path(_)) if !is("str") => {
                owned(inner)?;
                Ok(Self::Connection(inner.clone()))
            }
            (Some(_), _) => {
                refuse("`&mut` is for the connection, such as `&mut AsyncPgConnection`; take arguments by value")
            }
        }
    }
}

fn argument(pat: &Pat, form: Form) -> syn::Result<Param> {
    match pat {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => {
            Ok(Param::Argument(Argument { name: ident.clone(), form, options: ArgOptions::default() }))
        }
        Pat::Wild(_) => Err(syn::Error::new_spanned(
            pat,
            "an argument is stored under its name: write `name: T`, or `_name: T` if the function does not use it",
        )),
        // `Json(order): Json<Order>`
        Pat::TupleStruct(PatTupleStruct { path, .. }) if is_of_type(path, &form) => Err(syn::Error::new_spanned(
            pat,
            format!(
                "`{0}(..)` takes apart what a web framework passes to a route, and a worker passes no such thing to a job: write `name: T` \
                 for an argument, which is stored with the job, or `State(name): State<T>` for what belongs to the worker",
                path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
            ),
        )),
        _ => Err(syn::Error::new_spanned(
            pat,
            "an argument is stored under its name: write `name: T` and take it apart in the body",
        )),
    }
}

/// Whether the pattern has the name of the type, as the extractors of web frameworks are written.
fn is_of_type(pattern: &Path, form: &Form) -> bool {
    match (pattern.segments.last(), form) {
        (Some(last), Form::Value(Type::Path(ty))) => inside(&ty.path, &last.ident.to_string()).is_some(),
        _ => false,
    }
}

/// A type below `#[derive(Job)]`.
pub(crate) type Declaration = DeriveInput;
