//! Checks the options `concurrency`, `sequence`, `rate`, `unique` and `debounce` against the arguments of the job.

use std::time::Duration;

use proc_macro2::Span;
use syn::Ident;

use crate::errors::Errors;
use crate::nearest::nearest;
use crate::options::{OnDiscard, Options};

/// The limit of a kind.
pub(crate) struct Limit {
    /// The name: the one that is given, or that of the kind without its version.
    pub(crate) name: String,
    /// How many jobs may run at once.
    pub(crate) most: u32,
    /// The arguments whose values are the key.
    pub(crate) by: Vec<String>,
    /// Whether it is a sequence, and what happens when a job is discarded.
    pub(crate) sequence: Option<OnDiscard>,
    /// If it is a rate: the time in which so many jobs may start, and how many may start at once.
    pub(crate) rate: Option<(Duration, Option<u32>)>,
}

/// The limit that the options set. `kind` is the default kind. The values of the key are found by the names of the arguments in the
/// stored JSON object, and they are shown to operators.
pub(crate) fn checked(
    options: &Options,
    kind: String,
    arguments: &[String],
    secrets: &[String],
    errors: &mut Errors,
) -> Option<Limit> {
    let (name, most, by, sequence, rate) = match (&options.concurrency, &options.sequence, &options.rate) {
        (None, None, None) => return None,
        (Some(limit), None, None) => (&limit.name, limit.most, &limit.by, None, None),
        (None, Some(sequence), None) => (&sequence.name, 1, &sequence.by, Some(sequence.on_discard), None),
        (None, None, Some(rate)) => (&rate.name, rate.most, &rate.by, None, Some((rate.per, rate.burst))),
        (_, _, Some(_)) => {
            let message = "a job has one of `rate`, `concurrency` and `sequence`, not several; to limit how many jobs of a queue run at \
                           once, give its workers fewer slots";
            errors.push(syn::Error::new(place(options, "rate"), message));
            return None;
        }
        (Some(_), Some(_), None) => {
            let message = "a job has either `sequence` or `concurrency`, not both; a sequence runs one job at a time";
            errors.push(syn::Error::new(place(options, "sequence"), message));
            return None;
        }
    };
    if sequence.is_some() && options.cron.is_some() {
        let message = "a job with `cron` cannot be in a sequence: a sequence that halts would stop the schedule; use `concurrency(limit = 1)`";
        errors.push(syn::Error::new(place(options, "sequence"), message));
        return None;
    }
    check_by(by, arguments, secrets, errors);
    let own = options.kind.as_ref().map_or(kind, syn::LitStr::value);
    Some(Limit {
        name: name.as_ref().map_or(own, syn::LitStr::value),
        most,
        by: by.iter().map(ToString::to_string).collect(),
        sequence,
        rate,
    })
}

/// Checks `by` of the option `unique` or `debounce`.
pub(crate) fn check_unique(options: &Options, arguments: &[String], secrets: &[String], errors: &mut Errors) {
    if let Some(unique) = &options.unique {
        check_by(&unique.by, arguments, secrets, errors);
    }
}

fn check_by(by: &[Ident], arguments: &[String], secrets: &[String], errors: &mut Errors) {
    for argument in by {
        let name = argument.to_string();
        if secrets.contains(&name) {
            errors.at(argument, format!("`{name}` is secret, and keys are shown: name another argument"));
        } else {
            exists(argument, arguments, errors);
        }
    }
}

/// Where the option is written.
fn place(options: &Options, option: &str) -> Span {
    options.written.get(option).copied().unwrap_or_else(Span::call_site)
}

/// Checks that `by` names an argument of the job.
pub(crate) fn exists(argument: &Ident, arguments: &[String], errors: &mut Errors) {
    let name = argument.to_string();
    if arguments.contains(&name) {
        return;
    }
    let hint = match (nearest(&name, arguments.iter().map(String::as_str)), arguments) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => "the job has no arguments that are stored under their own names".to_owned(),
        (None, arguments) => format!("the arguments are `{}`", arguments.join("`, `")),
    };
    errors.at(argument, format!("`by` names `{name}`, which is not an argument of this job; {hint}"));
}
