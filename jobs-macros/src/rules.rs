//! Checks the options `concurrency`, `sequence`, `rate`, `fair`, `unique` and `debounce` against the arguments of the
//! job.

use std::time::Duration;

use proc_macro2::Span;
use syn::{Ident, LitStr};

use crate::errors::Errors;
use crate::nearest::nearest;
use crate::options::{Concurrency, OnConflict, OnDiscard, OnFull, Options, Rate, Sequence};

/// The most rules of a job. `diesel_jobs_core` has the same number at run time.
const MOST_RULES: usize = 4;

/// A rule of a kind.
pub(crate) struct Rule {
    /// The name: the one that is given, or the oldest name of the kind without its version.
    pub(crate) name: String,
    pub(crate) sort: Sort,
    /// The arguments whose values are the key.
    pub(crate) by: Vec<String>,
    /// What happens with a job that finds it full.
    pub(crate) on_full: OnFull,
    /// The arguments whose values are the tenant of a job.
    pub(crate) fair: Vec<String>,
}

/// What a rule says.
pub(crate) enum Sort {
    /// How many jobs may run at once.
    Concurrency(u32),
    /// What happens when a job of the sequence is discarded.
    Sequence(OnDiscard),
    /// How many jobs may start in a period, and how many at once.
    Rate { limit: u32, per: Duration, burst: Option<u32> },
}

/// The rules that the options set. A rule without a name is called `own`. The values of the keys are found by the names
/// of the arguments in the stored JSON object, and they are shown to operators.
pub(crate) fn checked(
    options: &Options,
    own: &str,
    arguments: &[String],
    secrets: &[String],
    errors: &mut Errors,
) -> Vec<Rule> {
    if let (Some(option), true) = (options.schedule(), options.sequence.is_some()) {
        let message = format!(
            "a job with `{option}` cannot be in a sequence: a sequence that halts would stop the schedule; use `concurrency(limit = 1)`"
        );
        errors.push(syn::Error::new(place(options, "sequence"), message));
        return Vec::new();
    }
    let named = |name: &Option<LitStr>| name.as_ref().map_or_else(|| own.to_owned(), LitStr::value);
    let texts = |by: &[Ident]| by.iter().map(ToString::to_string).collect();
    let mut rules: Vec<(Span, Rule)> = Vec::new();
    if let Some(Sequence { name, by, on_discard }) = &options.sequence {
        check_by(by, arguments, secrets, errors);
        let (sort, on_full) = (Sort::Sequence(*on_discard), OnFull::Wait);
        let rule = Rule { name: named(name), sort, by: texts(by), on_full, fair: Vec::new() };
        rules.push((place(options, "sequence"), rule));
    }
    for (span, Concurrency { name, most, by, on_full }) in &options.concurrency {
        check_by(by, arguments, secrets, errors);
        let (sort, on_full) = (Sort::Concurrency(*most), *on_full);
        let fair = options.fair.as_deref().map(texts).unwrap_or_default();
        rules.push((*span, Rule { name: named(name), sort, by: texts(by), on_full, fair }));
    }
    for (span, Rate { name, most, per, burst, by, on_full }) in &options.rate {
        check_by(by, arguments, secrets, errors);
        let (sort, on_full) = (Sort::Rate { limit: *most, per: *per, burst: *burst }, *on_full);
        rules.push((*span, Rule { name: named(name), sort, by: texts(by), on_full, fair: Vec::new() }));
    }
    check_several(&rules, own, errors);
    check_fair(options, arguments, secrets, errors);
    rules.into_iter().map(|(_, rule)| rule).collect()
}

/// Checks that the limits have different names, that there are not too many, and that a job with several of them waits.
fn check_several(limits: &[(Span, Rule)], own: &str, errors: &mut Errors) {
    if let Some((span, _)) = limits.get(MOST_RULES) {
        errors.push(syn::Error::new(*span, format!("a job has at most {MOST_RULES} rules")));
    }
    if let ([_, _, ..], Some((span, _))) = (limits, limits.iter().find(|(_, limit)| limit.on_full != OnFull::Wait)) {
        let message =
            "`on_full` is for a job with one limit or rate: a job with several of them, or with a sequence, waits";
        errors.push(syn::Error::new(*span, message));
    }
    for (place, (span, limit)) in limits.iter().enumerate() {
        if !limits.iter().take(place).any(|(_, before)| before.name == limit.name) {
            continue;
        }
        let name = &limit.name;
        let message = match name == own {
            true => "two rules of this job have no name, so both are called like its kind; begin one with a name, such as `concurrency(\"stripe\", limit = 5)`".to_owned(),
            false => format!("two rules of this job have the name `{name}`; give each one a name of its own"),
        };
        errors.push(syn::Error::new(*span, message));
    }
}

/// Checks that the job with tenants has one limit, for which they wait.
fn check_fair(options: &Options, arguments: &[String], secrets: &[String], errors: &mut Errors) {
    let Some(by) = &options.fair else { return };
    check_by(by, arguments, secrets, errors);
    let other = ["sequence", "rate"].into_iter().find(|name| options.written.contains_key(*name));
    let message = match (other, options.concurrency.len()) {
        (Some(other), _) => format!("`fair` is for jobs with one `concurrency` and no other rule; leave out `{other}` or `fair`"),
        (None, 2..) => "`fair` is for jobs with one limit, and this job has several; leave out all but one `concurrency`, or `fair`".to_owned(),
        // A `concurrency` that was refused has an error already. It is not missing.
        (None, 0) if !options.written.contains_key("concurrency") => {
            "`fair` needs a limit: without one all waiting jobs are available at once, and nothing takes turns; add `concurrency(limit = 10)`".to_owned()
        }
        (None, 1) if options.concurrency.iter().any(|(_, limit)| limit.on_full != OnFull::Wait) => {
            "`fair` is for jobs that wait for their limit, and with this `on_full` they do not wait; leave out `on_full` or `fair`".to_owned()
        }
        (None, _) => return,
    };
    errors.push(syn::Error::new(place(options, "fair"), message));
}

/// Checks `by` of the option `unique` or `debounce`.
pub(crate) fn check_unique(options: &Options, arguments: &[String], secrets: &[String], errors: &mut Errors) {
    let Some(unique) = &options.unique else { return };
    check_by(&unique.by, arguments, secrets, errors);
    if let ([], Some(secret)) = (&*unique.by, secrets.first()) {
        let message = format!(
            "without `by(..)`, the key is a hash of all arguments; `{secret}` is secret, keys are shown, and a short secret can be found by trying: name the arguments of the key in `by(..)`"
        );
        let option = if options.written.contains_key("debounce") { "debounce" } else { "unique" };
        errors.push(syn::Error::new(place(options, option), message));
    }
    let limit = ["concurrency", "sequence", "rate"].into_iter().find(|name| options.written.contains_key(*name));
    if let (OnConflict::RunAgain, Some(name)) = (&unique.on_conflict, limit) {
        let message = "`run_again` makes a sequence of the jobs with the key, so the job can have no `concurrency`, `sequence` or `rate`";
        errors.push(syn::Error::new(place(options, name), message));
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
