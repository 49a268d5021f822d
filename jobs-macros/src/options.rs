//! Parses the values of the options, and checks each value by itself. `validate` checks how they fit together.

use std::collections::BTreeMap;
use std::time::Duration;

use proc_macro2::Span;
use syn::{Expr, ExprLit, ExprPath, ExprUnary, Ident, Lit, LitStr, Type, TypePath, UnOp};

use crate::attr::Entry;
use crate::duration;
use crate::errors::Errors;
use crate::nearest::nearest;

/// The most bytes of a kind or a queue. `diesel_jobs_core` has the same limit at run time.
pub(crate) const MAX_NAME_BYTES: usize = 200;

const KNOWN: [&str; 16] = [
    "name",
    "kind",
    "queue",
    "priority",
    "max_attempts",
    "timeout",
    "backoff",
    "retain",
    "cron",
    "timezone",
    "catch_up",
    "blocking",
    "connection",
    "version",
    "upgrade",
    "on_discarded",
];

/// The parsed options. `None` stands for the default.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<Ident>,
    pub(crate) kind: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_attempts: Option<u16>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) retain: Option<Retain>,
    pub(crate) cron: Option<LitStr>,
    pub(crate) timezone: Option<LitStr>,
    pub(crate) catch_up: Option<CatchUp>,
    /// Only for types. For functions, the signature decides it.
    pub(crate) blocking: bool,
    pub(crate) connection: Option<Type>,
    pub(crate) version: Option<u16>,
    /// The functions that turn arguments of a version into those of the next one, the oldest first.
    pub(crate) upgrade: Option<Vec<ExprPath>>,
    /// The job that is enqueued when a job of this kind is discarded.
    pub(crate) on_discarded: Option<TypePath>,
    /// The span of each option.
    pub(crate) written: BTreeMap<String, Span>,
}

pub(crate) enum Backoff {
    Exponential { base: Duration, cap: Duration },
    Fixed(Duration),
    Custom(ExprPath),
}

pub(crate) enum Retain {
    None,
    For(Duration),
    Forever,
}

#[derive(Clone, Copy)]
pub(crate) enum CatchUp {
    Skip,
    Last,
    All,
}

/// The macro that the options are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Function,
    Type,
}

impl Options {
    pub(crate) fn read(entries: Vec<Entry>, target: Target, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        for Entry { name, value } in entries {
            let word = name.to_string();
            if options.written.insert(word.clone(), name.span()).is_some() {
                errors.at(&name, format!("`{word}` is given twice"));
                continue;
            }
            let read = match word.as_str() {
                "name" if target == Target::Type => Err(syn::Error::new(
                    name.span(),
                    "the type has a name already; `kind = \"...\"` sets the stored one",
                )),
                "blocking" if target == Target::Function => Err(syn::Error::new(
                    name.span(),
                    "a function says by itself whether it blocks: write `fn` or `async fn`",
                )),
                "connection" if target == Target::Function => Err(syn::Error::new(
                    name.span(),
                    "a function takes the connection of its transaction as a parameter: `conn: &mut AsyncPgConnection`",
                )),
                "blocking" => flag(&value).map(|v| options.blocking = v),
                "connection" => connection(value).map(|v| options.connection = Some(v)),
                "version" => version(&value).map(|v| options.version = Some(v)),
                "upgrade" => upgrade(value).map(|v| options.upgrade = Some(v)),
                "on_discarded" => on_discarded(value).map(|v| options.on_discarded = Some(v)),
                "name" => struct_name(&value).map(|v| options.name = Some(v)),
                "kind" => stored_name(&word, &value).map(|v| options.kind = Some(v)),
                "queue" => stored_name(&word, &value).map(|v| options.queue = Some(v)),
                "priority" => priority(&value).map(|v| options.priority = Some(v)),
                "max_attempts" => max_attempts(&value).map(|v| options.max_attempts = Some(v)),
                "timeout" => timeout(&value).map(|v| options.timeout = Some(v)),
                "backoff" => backoff(value).map(|v| options.backoff = Some(v)),
                "retain" => retain(&value).map(|v| options.retain = Some(v)),
                "cron" => {
                    text(&value, "`cron` takes a string, such as \"0 0 2 * * *\"").map(|v| options.cron = Some(v))
                }
                "timezone" => text(&value, "`timezone` takes a string, such as \"Europe/Paris\"")
                    .map(|v| options.timezone = Some(v)),
                "catch_up" => catch_up(&value).map(|v| options.catch_up = Some(v)),
                _ => Err(unknown(&name, target)),
            };
            errors.keep(read);
        }
        options
    }
}

fn unknown(name: &Ident, target: Target) -> syn::Error {
    let elsewhere: &[&str] = if target == Target::Function { &["blocking", "connection"] } else { &["name"] };
    let known: Vec<&str> = KNOWN.into_iter().filter(|known| !elsewhere.contains(known)).collect();
    let hint = match nearest(&name.to_string(), known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the options are `{}`", known.join("`, `")),
    };
    syn::Error::new(name.span(), format!("unknown option `{name}`; {hint}"))
}

fn flag(value: &Expr) -> syn::Result<bool> {
    match literal(value) {
        Some(Lit::Bool(value)) => Ok(value.value),
        _ => Err(syn::Error::new_spanned(value, "`blocking` takes `true` or `false`, without quotes")),
    }
}

fn connection(value: Expr) -> syn::Result<Type> {
    match value {
        Expr::Group(group) => connection(*group.expr),
        Expr::Path(ExprPath { qself, path, .. }) => Ok(Type::Path(TypePath { qself, path })),
        value => Err(syn::Error::new_spanned(
            value,
            "`connection` takes the type of a connection, without quotes, such as `AsyncPgConnection`",
        )),
    }
}

/// Returns the literal of a value. A value that a `macro_rules!` macro passed is inside an invisible group.
fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

fn text(value: &Expr, otherwise: &str) -> syn::Result<LitStr> {
    match literal(value) {
        Some(Lit::Str(text)) => Ok(text.clone()),
        _ => Err(syn::Error::new_spanned(value, otherwise)),
    }
}

fn struct_name(value: &Expr) -> syn::Result<Ident> {
    let otherwise = "`name` takes the name of the struct as a string, such as \"SendWelcome\"";
    let text = text(value, otherwise)?;
    text.parse().map_err(|_| syn::Error::new(text.span(), otherwise))
}

fn stored_name(option: &str, value: &Expr) -> syn::Result<LitStr> {
    let text = text(value, &format!("`{option}` takes a string, such as `{option} = \"mail\"`"))?;
    let name = text.value();
    let problem = if name.is_empty() {
        "must not be empty"
    } else if name.len() > MAX_NAME_BYTES {
        "must not be longer than 200 bytes"
    } else if name.contains('\0') {
        "must not hold a NUL character, which no database stores"
    } else {
        return Ok(text);
    };
    Err(syn::Error::new(text.span(), format!("`{option}` {problem}")))
}

fn priority(value: &Expr) -> syn::Result<i16> {
    let otherwise = || {
        syn::Error::new_spanned(
            value,
            "`priority` takes a whole number from -32768 to 32767, without quotes; higher runs first",
        )
    };
    match value {
        Expr::Group(group) => priority(&group.expr),
        // The sign is a separate token. Parsing 32768 without it would fail.
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => match literal(expr) {
            Some(Lit::Int(int)) => format!("-{}", int.base10_digits()).parse().map_err(|_| otherwise()),
            _ => Err(otherwise()),
        },
        _ => match literal(value) {
            Some(Lit::Int(int)) => int.base10_digits().parse().map_err(|_| otherwise()),
            _ => Err(otherwise()),
        },
    }
}

fn max_attempts(value: &Expr) -> syn::Result<u16> {
    let otherwise =
        || syn::Error::new_spanned(value, "`max_attempts` takes a whole number from 1 to 32767, without quotes");
    let Some(Lit::Int(int)) = literal(value) else { return Err(otherwise()) };
    match int.base10_digits().parse::<i16>() {
        Ok(attempts @ 1..) => Ok(attempts.unsigned_abs()),
        _ => Err(otherwise()),
    }
}

fn version(value: &Expr) -> syn::Result<u16> {
    let otherwise = || syn::Error::new_spanned(value, "`version` takes a whole number from 1 to 9999, without quotes");
    let Some(Lit::Int(int)) = literal(value) else { return Err(otherwise()) };
    int.base10_parse().ok().filter(|version| (1..=9999).contains(version)).ok_or_else(otherwise)
}

fn upgrade(value: Expr) -> syn::Result<Vec<ExprPath>> {
    match value {
        Expr::Group(group) => upgrade(*group.expr),
        Expr::Path(path) => Ok(vec![path]),
        Expr::Array(array) => {
            array.elems.into_iter().map(upgrade).collect::<syn::Result<Vec<_>>>().map(|all| all.concat())
        }
        value => Err(syn::Error::new_spanned(
            value,
            "`upgrade` takes the path of a function, such as `from_v1`, or several, the oldest first: `[from_v1, from_v2]`",
        )),
    }
}

fn on_discarded(value: Expr) -> syn::Result<TypePath> {
    match value {
        Expr::Group(group) => on_discarded(*group.expr),
        Expr::Path(ExprPath { qself, path, .. }) => Ok(TypePath { qself, path }),
        value => Err(syn::Error::new_spanned(
            value,
            "`on_discarded` takes the type of a job, without quotes, such as `AlertOps`",
        )),
    }
}

fn timeout(value: &Expr) -> syn::Result<Duration> {
    let text = text(value, "`timeout` takes a duration as a string, such as \"30s\"")?;
    match duration::parse(&text.value()) {
        Ok(Duration::ZERO) => Err(syn::Error::new(
            text.span(),
            "a `timeout` of nothing leaves no time to run; leave the option out for no limit",
        )),
        other => other.map_err(|problem| syn::Error::new(text.span(), problem)),
    }
}

fn backoff(value: Expr) -> syn::Result<Backoff> {
    let otherwise =
        "`backoff` takes \"exponential(2s, 1h)\", \"fixed(5s)\", or the path of a `fn(attempt: u16) -> Duration`";
    let value = match value {
        Expr::Group(group) => *group.expr,
        value => value,
    };
    let text = match value {
        Expr::Path(path) => return Ok(Backoff::Custom(path)),
        value => text(&value, otherwise)?,
    };
    let at = |problem: String| syn::Error::new(text.span(), problem);
    let written = text.value();
    let (form, times) = written
        .trim()
        .strip_suffix(')')
        .and_then(|call| call.split_once('('))
        .ok_or_else(|| at(otherwise.to_owned()))?;
    let times = times.split(',').map(duration::parse).collect::<Result<Vec<_>, _>>().map_err(at)?;
    match (form.trim(), times.as_slice()) {
        ("exponential", [Duration::ZERO, _]) => {
            Err(at("doubling nothing stays nothing: the first time of `exponential` must be longer than 0".to_owned()))
        }
        ("exponential", [base, cap]) if base > cap => Err(at(
            "the second time of `exponential` is the longest wait and cannot be shorter than the first".to_owned(),
        )),
        ("exponential", &[base, cap]) => Ok(Backoff::Exponential { base, cap }),
        ("fixed", &[wait]) => Ok(Backoff::Fixed(wait)),
        _ => Err(at(otherwise.to_owned())),
    }
}

fn retain(value: &Expr) -> syn::Result<Retain> {
    let text = text(value, "`retain` takes \"none\", \"forever\" or a duration such as \"7d\"")?;
    match text.value().as_str() {
        "none" => Ok(Retain::None),
        "forever" => Ok(Retain::Forever),
        other => match duration::parse(other) {
            Ok(Duration::ZERO) => Err(syn::Error::new(text.span(), "to keep no completed jobs write \"none\"")),
            Ok(time) => Ok(Retain::For(time)),
            Err(problem) => {
                Err(syn::Error::new(text.span(), format!("{problem}; `retain` also takes \"none\" and \"forever\"")))
            }
        },
    }
}

fn catch_up(value: &Expr) -> syn::Result<CatchUp> {
    let otherwise = "`catch_up` takes \"skip\", \"last\" or \"all\"";
    match text(value, otherwise)?.value().as_str() {
        "skip" => Ok(CatchUp::Skip),
        "last" => Ok(CatchUp::Last),
        "all" => Ok(CatchUp::All),
        _ => Err(syn::Error::new_spanned(value, otherwise)),
    }
}
