//! Parses the value of each option.

use std::time::Duration;

use syn::{Expr, ExprLit, ExprPath, ExprUnary, Ident, Lit, LitStr, Type, TypePath, UnOp};

use super::{Backoff, CatchUp, MAX_NAME_BYTES, Retain};
use crate::names::upper_camel;
use crate::{duration, every};

pub(super) fn flag(value: &Expr) -> syn::Result<bool> {
    match literal(value) {
        Some(Lit::Bool(value)) => Ok(value.value),
        _ => Err(syn::Error::new_spanned(value, "`blocking` takes `true` or `false`, without quotes")),
    }
}

pub(super) fn connection(value: Expr) -> syn::Result<Type> {
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
pub(super) fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

pub(super) fn text(value: &Expr, otherwise: &str) -> syn::Result<LitStr> {
    match literal(value) {
        Some(Lit::Str(text)) => Ok(text.clone()),
        _ => Err(syn::Error::new_spanned(value, otherwise)),
    }
}

pub(super) fn struct_name(value: &Expr) -> syn::Result<Ident> {
    let otherwise = "`name` takes the name of the struct as a string, such as \"SendWelcome\"";
    let text = text(value, otherwise)?;
    text.parse().map_err(|_| syn::Error::new(text.span(), otherwise))
}

pub(super) fn stored_name(option: &str, value: &Expr) -> syn::Result<LitStr> {
    let text = text(value, &format!("`{option}` takes a string, such as `{option} = \"mail\"`"))?;
    storable(&format!("`{option}`"), &text)?;
    Ok(text)
}

/// Returns the name of a rule that kinds share, which comes first in its list. `form` says how the list is written.
pub(super) fn shared_name(option: &str, part: &Expr, form: &str) -> syn::Result<LitStr> {
    match literal(part) {
        Some(Lit::Str(_)) => stored_name(option, part),
        _ => Err(syn::Error::new_spanned(
            part,
            format!("not a part of `{option}`, in which only a name has no `=`; {form}"),
        )),
    }
}

/// Refuses a name that no database could store.
pub(super) fn storable(what: &str, text: &LitStr) -> syn::Result<()> {
    let name = text.value();
    let problem = if name.is_empty() {
        "must not be empty"
    } else if name.len() > MAX_NAME_BYTES {
        "must not be longer than 200 bytes"
    } else if name.contains('\0') {
        "must not contain a NUL character, which databases do not store"
    } else {
        return Ok(());
    };
    Err(syn::Error::new(text.span(), format!("{what} {problem}")))
}

pub(super) fn priority(value: &Expr) -> syn::Result<i16> {
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

pub(super) fn max_attempts(value: &Expr) -> syn::Result<u16> {
    let otherwise =
        || syn::Error::new_spanned(value, "`max_attempts` takes a whole number from 1 to 32767, without quotes");
    let Some(Lit::Int(int)) = literal(value) else { return Err(otherwise()) };
    match int.base10_digits().parse::<i16>() {
        Ok(attempts @ 1..) => Ok(attempts.unsigned_abs()),
        _ => Err(otherwise()),
    }
}

pub(super) fn version(value: &Expr) -> syn::Result<u16> {
    let otherwise = || syn::Error::new_spanned(value, "`version` takes a whole number from 1 to 9999, without quotes");
    let Some(Lit::Int(int)) = literal(value) else { return Err(otherwise()) };
    int.base10_parse().ok().filter(|version| (1..=9999).contains(version)).ok_or_else(otherwise)
}

pub(super) fn upgrade(value: Expr) -> syn::Result<Vec<ExprPath>> {
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

pub(super) fn on_discarded(value: Expr) -> syn::Result<TypePath> {
    match value {
        Expr::Group(group) => on_discarded(*group.expr),
        Expr::Path(ExprPath { qself, path, .. }) => match path.segments.last().map(|last| last.ident.to_string()) {
            Some(name) if name.starts_with(char::is_lowercase) => Err(syn::Error::new_spanned(
                path,
                format!(
                    "`on_discarded` takes the type of a job, such as `{}`; `{name}` is a function",
                    upper_camel(&name)
                ),
            )),
            _ => Ok(TypePath { qself, path }),
        },
        value => Err(syn::Error::new_spanned(
            value,
            "`on_discarded` takes the type of a job, without quotes, such as `AlertOps`",
        )),
    }
}

pub(super) fn timeout(value: &Expr) -> syn::Result<Duration> {
    let text = text(value, "`timeout` takes a duration as a string, such as \"30s\"")?;
    match duration::parse(&text.value()) {
        Ok(Duration::ZERO) => {
            Err(syn::Error::new(text.span(), "`timeout` must be longer than 0; omit the option for no limit"))
        }
        other => other.map_err(|problem| syn::Error::new(text.span(), problem)),
    }
}

pub(super) fn expires(value: &Expr) -> syn::Result<Duration> {
    let text = text(value, "`expires` takes a duration as a string, such as \"10m\"")?;
    match duration::parse(&text.value()) {
        Ok(Duration::ZERO) => Err(syn::Error::new(
            text.span(),
            "`expires` must be longer than 0; omit the option if the job may start at any time",
        )),
        other => other.map_err(|problem| syn::Error::new(text.span(), problem)),
    }
}

/// Returns the interval as it is stored.
pub(super) fn every(value: &Expr) -> syn::Result<String> {
    let text = text(value, "`every` takes an interval as a string, such as \"90m\"")?;
    every::stored(&text.value()).map_err(|problem| syn::Error::new(text.span(), problem))
}

/// Returns the duration of the part `name` of an option.
pub(super) fn duration(value: &Expr, name: &str) -> syn::Result<Duration> {
    let text = text(value, &format!("`{name}` takes a duration as a string, such as \"30s\""))?;
    duration::parse(&text.value()).map_err(|problem| syn::Error::new(text.span(), problem))
}

pub(super) fn backoff(value: Expr) -> syn::Result<Backoff> {
    let otherwise = "`backoff` takes \"exponential(2s, 1h)\", \"fixed(5s)\", \"fixed(5s, jitter = 2s)\", or the path of a `fn(attempt: u16) -> Duration`";
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
    let (times, jitter) = match times.split_once(',').filter(|_| form.trim() == "fixed") {
        Some((wait, rest)) => (wait, Some(jitter(rest).ok_or_else(|| at(otherwise.to_owned()))?)),
        None => (times, None),
    };
    let jitter = jitter.map(duration::parse).transpose().map_err(at)?;
    let times = times.split(',').map(duration::parse).collect::<Result<Vec<_>, _>>().map_err(at)?;
    match (form.trim(), times.as_slice()) {
        ("exponential", [Duration::ZERO, _]) => {
            Err(at("the first time of `exponential` must be longer than 0, because it is doubled for each attempt"
                .to_owned()))
        }
        ("exponential", [base, cap]) if base > cap => Err(at(
            "the second time of `exponential` is the longest wait and cannot be shorter than the first".to_owned(),
        )),
        ("exponential", &[base, cap]) => Ok(Backoff::Exponential { base, cap }),
        ("fixed", [_]) if jitter == Some(Duration::ZERO) => {
            Err(at("`jitter` must be longer than 0; leave it out if all jobs should wait equally long".to_owned()))
        }
        ("fixed", &[wait]) => Ok(Backoff::Fixed { wait, jitter: jitter.unwrap_or_default() }),
        _ => Err(at(otherwise.to_owned())),
    }
}

/// The text of the time in `jitter = 2s`.
fn jitter(part: &str) -> Option<&str> {
    part.trim().strip_prefix("jitter")?.trim_start().strip_prefix('=')
}

pub(super) fn retain(value: &Expr) -> syn::Result<Retain> {
    let text = text(value, "`retain` takes \"none\", \"forever\" or a duration such as \"7d\"")?;
    match text.value().as_str() {
        "none" => Ok(Retain::None),
        "forever" => Ok(Retain::Forever),
        other => match duration::parse(other) {
            Ok(Duration::ZERO) => Err(syn::Error::new(text.span(), "to keep no completed jobs, write \"none\"")),
            Ok(time) => Ok(Retain::For(time)),
            Err(problem) => {
                Err(syn::Error::new(text.span(), format!("{problem}; `retain` also takes \"none\" and \"forever\"")))
            }
        },
    }
}

pub(super) fn catch_up(value: &Expr) -> syn::Result<CatchUp> {
    let otherwise = "`catch_up` takes \"skip\", \"last\" or \"all\"";
    match text(value, otherwise)?.value().as_str() {
        "skip" => Ok(CatchUp::Skip),
        "last" => Ok(CatchUp::Last),
        "all" => Ok(CatchUp::All),
        _ => Err(syn::Error::new_spanned(value, otherwise)),
    }
}
