//! Checks the item and its options together. The result is a plan that `expand` turns into code without further checks.

use syn::ext::IdentExt;
use syn::visit::Visit;
use syn::{Attribute, Data, Generics, Ident, ReturnType, Signature, Type, TypeImplTrait};

use crate::arg::ArgOptions;
use crate::ast::{Argument, Declaration, Form, Function, Param, free_function};
use crate::errors::Errors;
use crate::fields::{plain_fields, secrets};
use crate::options::Options;
use crate::rules::{self, Rule};
use crate::version::{self, Earlier, Kinds};
use crate::{cron, names};

/// The checked properties of a job.
pub(crate) struct Plan {
    /// The type that implements `Job`.
    pub(crate) name: Ident,
    /// The stored kind. It contains the version, if that is not the first.
    pub(crate) kind: String,
    /// The earlier versions whose stored jobs are upgraded, the oldest first.
    pub(crate) earlier: Vec<Earlier>,
    /// For each alias, its stored kinds in the order of the versions.
    pub(crate) aliases: Vec<Vec<String>>,
    /// The options, checked together.
    pub(crate) options: Options,
    /// The stored names of the secret arguments.
    pub(crate) secrets: Vec<String>,
    /// How many jobs may run at once.
    pub(crate) rules: Vec<Rule>,
    /// The item's `cfg` and `allow` attributes. All generated items need them, because they repeat tokens of the item.
    pub(crate) shared: Vec<Attribute>,
}

/// Checks a function. The plan is valid only if no error was added.
pub(crate) fn function(function: &mut Function, options: Options, errors: &mut Errors) -> Option<Plan> {
    let ident = function.sig.ident.clone();
    // Other errors are reported when the function is no longer an associated one.
    if function.associated {
        match function.sig.receiver() {
            Some(receiver) => errors.at(receiver, free_function(&function.sig)),
            None => errors.at(&ident, free_function(&function.sig)),
        }
        return None;
    }
    signature(&function.sig, errors);
    let takes_connection = function.params.iter().any(|param| matches!(param, Param::Connection(_)));
    let mut connections = 0;
    for (param, input) in function.params.iter_mut().zip(&function.sig.inputs) {
        match param {
            // The error about the generics is enough.
            Param::Refused(_) if !function.sig.generics.params.is_empty() => {}
            Param::Refused(error) => errors.push(error.clone()),
            Param::Argument(argument) if options.schedule().is_some() => errors.at(
                &argument.name,
                format!(
                    "the schedule of `{}` enqueues this job without arguments; take the value as `State<T>` or read it from the database",
                    options.schedule().unwrap_or_default()
                ),
            ),
            Param::Argument(Argument { form: Form::Row { .. }, options: ArgOptions { lock: Some((_, span)), .. }, .. })
                if !takes_connection =>
            {
                errors.push(syn::Error::new(
                    *span,
                    "without a connection the lock of the row would end before the handler begins: take the connection too, such as \
                     `conn: &mut AsyncPgConnection`; or leave `lock` out",
                ));
            }
            Param::Take(ty, _) if !takes_connection => errors.at(
                ty,
                "a `Take<T>` is locked in the handler's transaction: take the connection too, such as `conn: &mut AsyncPgConnection`",
            ),
            Param::Connection(_) => {
                connections += 1;
                if connections > 1 {
                    errors.at(input, "a job runs in one transaction: take one `&mut` connection");
                }
            }
            _ => {}
        }
    }
    let name = match options.name.clone() {
        Some(name) => Some(name),
        None => errors.keep(struct_name(&ident)),
    }?;
    if name == ident {
        errors.at(
            &name,
            format!("the function and its struct would both be called `{name}`; write `#[job(name = \"...\")]`"),
        );
        return None;
    }
    schedule(&options, errors);
    on_discarded(&options, &name, errors);
    let Kinds { kind, earlier, aliases, oldest_name } =
        version::kinds(&options, ident.unraw().to_string(), &ident, errors);
    let secrets = function.params.iter().filter_map(|param| match param {
        Param::Argument(argument) if argument.options.secret => Some(argument.name.unraw().to_string()),
        _ => None,
    });
    let secrets: Vec<String> = secrets.collect();
    let arguments = function.params.iter().filter_map(|param| match param {
        Param::Argument(argument) => Some(argument.name.unraw().to_string()),
        _ => None,
    });
    let arguments = arguments.collect::<Vec<_>>();
    let rules = rules::checked(&options, &oldest_name, &arguments, &secrets, errors);
    rules::check_unique(&options, &arguments, &secrets, errors);
    Some(Plan { name, kind, earlier, aliases, secrets, rules, shared: shared(&function.attrs), options })
}

/// Checks a type. The plan is valid only if no error was added.
pub(crate) fn declaration(declaration: &Declaration, options: Options, errors: &mut Errors) -> Plan {
    not_generic(
        &declaration.generics,
        "a job has one kind and one form of arguments: its type cannot be generic",
        errors,
    );
    let fields = match &declaration.data {
        Data::Struct(data) => data.fields.iter().next(),
        Data::Enum(data) => data.variants.iter().find_map(|variant| variant.fields.iter().next()),
        Data::Union(data) => {
            errors.at(data.union_token, "a union cannot be stored as JSON; write a struct or an enum");
            None
        }
    };
    if let Some(option) = options.schedule() {
        let enqueues = format!("the schedule of `{option}` enqueues this job without arguments");
        let message = format!("{enqueues}; remove the field, and get its value in `handle`");
        match (&declaration.data, fields) {
            (Data::Enum(_), _) => {
                errors.at(&declaration.ident, format!("{enqueues}, so it cannot choose a variant; write a struct"));
            }
            (_, Some(field)) => errors.at(field, message),
            (_, None) => {}
        }
    }
    schedule(&options, errors);
    let name = declaration.ident.clone();
    on_discarded(&options, &name, errors);
    let Kinds { kind, earlier, aliases, oldest_name } =
        version::kinds(&options, names::snake(&name.unraw().to_string()), &name, errors);
    let secrets = secrets(declaration, errors);
    let fields: Vec<String> =
        plain_fields(declaration).filter_map(|field| Some(field.ident.as_ref()?.unraw().to_string())).collect();
    batch(&options, &fields, errors);
    let rules = rules::checked(&options, &oldest_name, &fields, &secrets, errors);
    rules::check_unique(&options, &fields, &secrets, errors);
    Plan { name, kind, earlier, aliases, secrets, rules, shared: shared(&declaration.attrs), options }
}

/// A batch handler that takes no connection is an `async fn`.
fn batch(options: &Options, fields: &[String], errors: &mut Errors) {
    let Some(batch) = &options.batch else { return };
    for argument in &batch.by {
        rules::exists(argument, fields, errors);
    }
    if let Some(span) = options.written.get("blocking")
        && !options.written.contains_key("connection")
    {
        errors.push(syn::Error::new(
            *span,
            "`blocking` can be combined with `batch` only if the handler takes the connection, such as `connection = SqliteConnection`; \
             without a connection the handler of a batch is async: call what blocks with `tokio::task::spawn_blocking`",
        ));
    }
}

/// Refuses a job that names itself as `on_discarded`. If it were discarded each time, it would be enqueued without end.
fn on_discarded(options: &Options, name: &Ident, errors: &mut Errors) {
    if let Some(job) = options.on_discarded.as_ref().filter(|job| job.path.is_ident(name)) {
        errors.at(
            job,
            "a discarded job cannot enqueue itself as `on_discarded`, or it would never end: name another job",
        );
    }
}

fn signature(sig: &Signature, errors: &mut Errors) {
    not_generic(&sig.generics, "a job has one kind and one form of arguments: write concrete types", errors);
    if let Some(constness) = sig.constness {
        errors.at(constness, "a job runs at run time: write `fn` or `async fn`");
    }
    if let Some(unsafety) = sig.unsafety {
        errors
            .at(unsafety, "a worker calls the function with whatever arguments are stored, so it must be safe to call");
    }
    if let Some(abi) = &sig.abi {
        errors.at(abi, "a job has Rust's own calling convention: write `fn` or `async fn`");
    } else if let Some(variadic) = &sig.variadic {
        errors.at(variadic, "a job has a fixed list of arguments");
    }
    if let ReturnType::Type(_, ty) = &sig.output {
        if let Type::Never(never) = &**ty {
            errors.at(never, "a job returns: `()`, `Outcome` or `Result<T, E>`");
        }
        OpaqueTypes(errors).visit_type(ty);
    }
}

struct OpaqueTypes<'e>(&'e mut Errors);

impl Visit<'_> for OpaqueTypes<'_> {
    fn visit_type_impl_trait(&mut self, ty: &TypeImplTrait) {
        self.0.at(ty, "write the concrete type: `()`, `Outcome` or `Result<T, E>`");
    }
}

fn not_generic(generics: &Generics, message: &str, errors: &mut Errors) {
    if !generics.params.is_empty() {
        errors.at(&generics.params, message);
    } else if let Some(clause) = &generics.where_clause {
        errors.at(clause, message);
    }
}

fn struct_name(function: &Ident) -> syn::Result<Ident> {
    let name = names::upper_camel(&function.unraw().to_string());
    let mut ident: Ident = syn::parse_str(&name).map_err(|_| {
        syn::Error::new(
            function.span(),
            format!("no struct can be named after `{function}`; write `#[job(name = \"...\")]`"),
        )
    })?;
    ident.set_span(function.span());
    Ok(ident)
}

fn schedule(options: &Options, errors: &mut Errors) {
    let zone = match &options.timezone {
        Some(timezone) => match cron::zone(&timezone.value()) {
            Ok(zone) => zone,
            Err(problem) => return errors.push(syn::Error::new(timezone.span(), problem)),
        },
        None => chrono_tz::UTC,
    };
    if let (Some(span), true) = (options.written.get("every"), options.written.contains_key("cron")) {
        let message =
            "a job has one schedule: `cron` names times of the calendar, and `every` an interval; remove one of them";
        return errors.push(syn::Error::new(*span, message));
    }
    if let (Some(span), true) = (options.written.get("timezone"), options.written.contains_key("every")) {
        let message = "an interval is the same in all time zones: remove `timezone`, or name the times with `cron`";
        return errors.push(syn::Error::new(*span, message));
    }
    match &options.cron {
        Some(expression) => {
            if let Err(problem) = cron::check(&expression.value(), zone) {
                errors.push(syn::Error::new(expression.span(), problem));
            }
        }
        // An option that was refused has an error already. It is not missing.
        None if !options.written.contains_key("cron") && !options.written.contains_key("every") => {
            for option in ["timezone", "catch_up"] {
                if let Some(span) = options.written.get(option) {
                    errors.push(syn::Error::new(
                        *span,
                        format!("`{option}` is for jobs with a schedule; add `cron = \"...\"`, or remove `{option}`"),
                    ));
                }
            }
        }
        None => {}
    }
}

/// Returns the attributes that apply to all generated items. The compiler resolves each `cfg_attr` before the macro
/// runs.
fn shared(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs.iter().filter(|attr| ["cfg", "allow"].iter().any(|name| attr.path().is_ident(name))).cloned().collect()
}

/// Returns the return type. If it is omitted, returns `()` with the span of the function's name.
pub(crate) fn return_type(sig: &Signature) -> Type {
    match &sig.output {
        ReturnType::Type(_, ty) => (**ty).clone(),
        ReturnType::Default => syn::parse_quote_spanned!(sig.ident.span()=> ()),
    }
}
