//! Generates `impl Job`: the kind and the defaults of a job.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::options::{Backoff, CatchUp, OnConflict, OnDiscard, OnFull, Options, Retain, Unique};
use crate::rules::{Rule, Sort};
use crate::validate::Plan;

/// Generates `impl Job`.
pub(crate) fn job(private: &TokenStream, Plan { name, kind, options, secrets, rules, .. }: &Plan) -> TokenStream {
    let mut defaults = defaults(private, options);
    if !secrets.is_empty() {
        defaults.extend(quote!(.secrets(&[#(#secrets),*])));
    }
    if !rules.is_empty() {
        let rules = rules.iter().map(|one| rule(private, one));
        defaults.extend(quote!(.rules(&[#(#rules),*])));
    }
    if let Some(rule) = &options.unique {
        let rule = unique(private, rule);
        defaults.extend(quote!(.unique(#rule)));
    }
    quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl #private::Job for #name {
            const KIND: &'static str = #kind;
            const OPTIONS: #private::JobOptions = #defaults;
        }
    }
}

/// Generates a rule.
fn rule(private: &TokenStream, Rule { name, sort, by, on_full, fair }: &Rule) -> TokenStream {
    let rule = match sort {
        Sort::Concurrency(most) => quote!(concurrency(#name, #most)),
        Sort::Sequence(OnDiscard::Halt) => quote!(sequence(#name, #private::OnDiscard::Halt)),
        Sort::Sequence(OnDiscard::Skip) => quote!(sequence(#name, #private::OnDiscard::Skip)),
        Sort::Rate { limit, per, burst } => {
            let (per, burst) = (duration(*per), burst.map(|burst| quote!(.burst(#burst))));
            quote!(rate(#name, #limit, #per) #burst)
        }
    };
    let on_full = match on_full {
        OnFull::Wait => TokenStream::new(),
        OnFull::Discard => quote!(.on_full(#private::OnFull::Discard)),
        OnFull::CancelOldest => quote!(.on_full(#private::OnFull::CancelOldest)),
    };
    let fair = (!fair.is_empty()).then(|| quote!(.fair_by(&[#(#fair),*])));
    quote!(#private::KindRule::#rule.by(&[#(#by),*]) #on_full #fair)
}

fn defaults(private: &TokenStream, options: &Options) -> TokenStream {
    let mut calls = TokenStream::new();
    if let aliases @ [_, ..] = &*options.aliases {
        calls.extend(quote!(.aliases(&[#(#aliases),*])));
    }
    if let Some(queue) = &options.queue {
        calls.extend(quote!(.queue(#queue)));
    }
    if let Some(priority) = options.priority {
        calls.extend(quote!(.priority(#priority)));
    }
    if let Some(max_attempts) = options.max_attempts {
        calls.extend(quote!(.max_attempts(#max_attempts)));
    }
    if let Some(timeout) = options.timeout {
        let timeout = duration(timeout);
        calls.extend(quote!(.timeout(#timeout)));
    }
    if let Some(time) = options.expires {
        let time = duration(time);
        calls.extend(quote!(.expires(#time)));
    }
    if let Some(backoff) = &options.backoff {
        let backoff = match backoff {
            Backoff::Exponential { base, cap } => {
                let (base, cap) = (duration(*base), duration(*cap));
                quote!(Exponential { base: #base, cap: #cap })
            }
            Backoff::Fixed { wait, jitter } => {
                let (wait, jitter) = (duration(*wait), duration(*jitter));
                quote!(Fixed { wait: #wait, jitter: #jitter })
            }
            Backoff::Custom(path) => quote!(Custom(#path)),
        };
        calls.extend(quote!(.backoff(#private::Backoff::#backoff)));
    }
    if let Some(retain) = &options.retain {
        let retain = match retain {
            Retain::None => quote!(None),
            Retain::Forever => quote!(Forever),
            Retain::For(time) => {
                let time = duration(*time);
                quote!(For(#time))
            }
        };
        calls.extend(quote!(.retain(#private::Retain::#retain)));
    }
    quote!(#private::JobOptions::new() #calls)
}

/// Generates the rule of unique jobs.
fn unique(private: &TokenStream, Unique { by, within, started, on_conflict }: &Unique) -> TokenStream {
    let by = by.iter().map(ToString::to_string);
    let rule = match on_conflict {
        OnConflict::Debounce(quiet, max) => {
            let (quiet, max) = (duration(*quiet), duration(*max));
            return quote!(#private::Unique::debounce(#quiet, #max).by(&[#(#by),*]));
        }
        OnConflict::Keep => TokenStream::new(),
        OnConflict::Error => quote!(.on_conflict(#private::OnConflict::Error)),
        OnConflict::RunAgain => quote!(.on_conflict(#private::OnConflict::RunAgain)),
        OnConflict::Replace(args, run_at, priority) => {
            let args = args.then(|| quote!(.args()));
            let run_at = run_at.then(|| quote!(.run_at()));
            let priority = priority.then(|| quote!(.priority()));
            quote!(.on_conflict(#private::OnConflict::Replace(#private::Replace::new() #args #run_at #priority)))
        }
    };
    let within = within.map(duration).map(|time| quote!(.within(#time)));
    let until = started.then(|| quote!(.until(#private::Until::Started)));
    quote!(#private::Unique::new().by(&[#(#by),*]) #within #until #rule)
}

/// Generates the schedule of a registration.
pub(crate) fn schedule(private: &TokenStream, options: &Options) -> TokenStream {
    let cron = options.cron.as_ref().map(syn::LitStr::value);
    let Some(expression) = cron.or_else(|| options.every.clone()) else { return quote!(::core::option::Option::None) };
    let timezone = options.timezone.as_ref().map_or_else(|| "UTC".to_owned(), syn::LitStr::value);
    let catch_up = match options.catch_up {
        None | Some(CatchUp::Skip) => quote!(Skip),
        Some(CatchUp::Last) => quote!(Last),
        Some(CatchUp::All) => quote!(All),
    };
    quote! {
        ::core::option::Option::Some(#private::ScheduleSpec {
            expression: #expression,
            timezone: #timezone,
            catch_up: #private::CatchUp::#catch_up,
        })
    }
}

/// The options parse durations in milliseconds and limit them to a hundred years, so they fit.
fn duration(duration: Duration) -> TokenStream {
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    quote!(::core::time::Duration::from_millis(#milliseconds))
}
