//! Parses `unique(by(user_id), within = "5m", until = "started", on_conflict = "replace(args)")` and `debounce(quiet =
//! "5s", max = "1m", by(doc_id))`.

use std::time::Duration;

use syn::{Expr, ExprAssign, ExprCall, ExprTuple, Ident};

use super::concurrency::{argument, is};
use super::values::{duration, text};

const UNIQUE: &str = "write `unique(by(user_id))`, or with `within = \"5m\"`, `until = \"started\"` or `on_conflict = \"replace(args)\"`";
const DEBOUNCE: &str = "write `debounce(quiet = \"5s\", max = \"1m\", by(doc_id))`";
const ON_CONFLICT: &str =
    "`on_conflict` is \"keep\", \"error\", \"run_again\" or \"replace(..)\" with some of `args`, `run_at`, `priority`";

/// The option `unique` or `debounce` as it is written.
pub(crate) struct Unique {
    /// The arguments whose values are the key. If there are none, all are.
    pub(crate) by: Vec<Ident>,
    /// How long a job keeps its key at most.
    pub(crate) within: Option<Duration>,
    /// Whether it keeps the key only until it starts.
    pub(crate) started: bool,
    /// What an enqueue does if another job has the key.
    pub(crate) on_conflict: OnConflict,
}

/// What an enqueue does if another job has the key.
pub(crate) enum OnConflict {
    Keep,
    Error,
    RunAgain,
    /// Whether the arguments, the time and the priority are replaced.
    Replace(bool, bool, bool),
    /// `quiet` and `max`.
    Debounce(Duration, Duration),
}

pub(super) fn unique(value: Expr) -> syn::Result<Unique> {
    let (by, parts, _) = parts(value, "unique", &["within", "until", "on_conflict"], UNIQUE)?;
    let [within, until, on_conflict] = parts;
    let started = match until {
        None => false,
        Some(value) => match text(&value, "`until` is \"finished\" or \"started\"")? {
            word if word.value() == "finished" => false,
            word if word.value() == "started" => true,
            word => return Err(syn::Error::new(word.span(), "`until` is \"finished\" or \"started\"")),
        },
    };
    let within = within.map(|value| positive(&value, "within")).transpose()?;
    let written = on_conflict;
    let on_conflict = written.as_ref().map_or(Ok(OnConflict::Keep), self::on_conflict)?;
    if started && matches!(on_conflict, OnConflict::RunAgain) {
        let message = "`run_again` waits for the end of the running job: leave `until = \"started\"` out";
        return Err(syn::Error::new_spanned(written, message));
    }
    Ok(Unique { by, within, started, on_conflict })
}

pub(super) fn debounce(value: Expr) -> syn::Result<Unique> {
    let (by, parts, list) = parts(value, "debounce", &["quiet", "max", ""], DEBOUNCE)?;
    let [Some(quiet), Some(max), _] = parts else {
        return Err(syn::Error::new(list, format!("`debounce` needs `quiet` and `max`; {DEBOUNCE}")));
    };
    let (wait, most) = (positive(&quiet, "quiet")?, positive(&max, "max")?);
    if most < wait {
        return Err(syn::Error::new_spanned(
            max,
            "`max` must not be shorter than `quiet`: the job would never wait so long",
        ));
    }
    Ok(Unique { by, within: None, started: true, on_conflict: OnConflict::Debounce(wait, most) })
}

/// The arguments of `by`, the values of the named parts, and the place of the list.
type Parts = (Vec<Ident>, [Option<Expr>; 3], proc_macro2::Span);

fn parts(value: Expr, option: &str, names: &[&str; 3], form: &str) -> syn::Result<Parts> {
    let Expr::Tuple(ExprTuple { elems, paren_token, .. }) = value else {
        return Err(syn::Error::new_spanned(value, format!("`{option}` takes a list: {form}")));
    };
    let mut by: Option<Vec<Ident>> = None;
    let mut values = [None, None, None];
    for part in &elems {
        let twice = |name: &str| Err(syn::Error::new_spanned(part, format!("`{name}` is given twice")));
        match part {
            Expr::Call(ExprCall { func, args, .. }) if is(func, "by") => {
                let named = args.iter().map(argument).collect::<syn::Result<_>>()?;
                if by.replace(named).is_some() {
                    return twice("by");
                }
            }
            Expr::Assign(ExprAssign { left, right, .. }) => {
                let Some(place) = names.iter().position(|name| !name.is_empty() && is(left, name)) else {
                    return Err(syn::Error::new_spanned(part, format!("not a part of `{option}`; {form}")));
                };
                if values[place].replace((**right).clone()).is_some() {
                    return twice(names[place]);
                }
            }
            _ => return Err(syn::Error::new_spanned(part, format!("not a part of `{option}`; {form}"))),
        }
    }
    Ok((by.unwrap_or_default(), values, paren_token.span.join()))
}

fn positive(value: &Expr, name: &str) -> syn::Result<Duration> {
    let time = duration(value, name)?;
    if time.is_zero() {
        return Err(syn::Error::new_spanned(value, format!("`{name}` must be longer than 0")));
    }
    Ok(time)
}

fn on_conflict(value: &Expr) -> syn::Result<OnConflict> {
    let word = text(value, ON_CONFLICT)?;
    let refuse = || syn::Error::new(word.span(), ON_CONFLICT);
    let written = word.value();
    let written = written.trim();
    match written {
        "keep" => return Ok(OnConflict::Keep),
        "error" => return Ok(OnConflict::Error),
        "run_again" => return Ok(OnConflict::RunAgain),
        "replace" => return Ok(OnConflict::Replace(true, true, true)),
        _ => {}
    }
    let list = written.strip_prefix("replace(").and_then(|rest| rest.strip_suffix(')')).ok_or_else(refuse)?;
    let (mut args, mut run_at, mut priority) = (false, false, false);
    for name in list.split(',') {
        match name.trim() {
            "args" => args = true,
            "run_at" => run_at = true,
            "priority" => priority = true,
            _ => return Err(refuse()),
        }
    }
    Ok(OnConflict::Replace(args, run_at, priority))
}
