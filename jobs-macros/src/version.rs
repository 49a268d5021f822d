//! The stored kind of each version of a job.
//!
//! Jobs of version 1 are stored under the kind, and jobs of version 2 under `<kind>.v2`. A program runs only kinds that
//! it knows. So a program of version 1 leaves jobs of version 2 to others, and no table needs a column for the version.
//!
//! An alias is an earlier name of the kind without a version. It stands for the same versions as the kind: a job of
//! version 2 whose alias is `pay` also runs jobs of the kind `pay.v2`, and those of `pay` if it upgrades version 1.

use syn::{ExprPath, Ident, LitStr};

use crate::errors::Errors;
use crate::options::{MAX_NAME_BYTES, Options};

/// The kinds of a job.
pub(crate) struct Kinds {
    /// The kind of the current version.
    pub(crate) kind: String,
    /// The earlier versions whose stored jobs are upgraded, the oldest first.
    pub(crate) earlier: Vec<Earlier>,
    /// For each alias, its stored kinds in the order of the versions: those of `earlier`, and that of the current one.
    pub(crate) aliases: Vec<Vec<String>>,
    /// The oldest name. Whatever old and new programs share is called so: keys, limits without a name and the schedule.
    pub(crate) oldest_name: String,
}

/// An earlier version.
pub(crate) struct Earlier {
    /// Its stored kind.
    pub(crate) kind: String,
    /// The function that turns its arguments into those of the next version.
    pub(crate) upgrade: ExprPath,
}

/// Returns the kinds of all versions. `default` is the kind if the options state none.
pub(crate) fn kinds(options: &Options, default: String, ident: &Ident, errors: &mut Errors) -> Kinds {
    let base = options.kind.as_ref().map_or(default, LitStr::value);
    let version = options.version.unwrap_or(1);
    check(options, version, errors);
    let kind = stored(&base, version);
    // A kind that is derived from an identifier has the same limits as one that the options state.
    if kind.len() > MAX_NAME_BYTES {
        errors.at(ident, "this kind is longer than 200 bytes and cannot be stored; write `#[job(kind = \"...\")]`");
    }
    let upgrades = options.upgrade.clone().unwrap_or_default();
    // `check` has reported more functions than there are earlier versions.
    let oldest = version.saturating_sub(u16::try_from(upgrades.len()).unwrap_or(u16::MAX)).max(1);
    let earlier =
        upgrades.into_iter().zip(oldest..).map(|(upgrade, version)| Earlier { kind: stored(&base, version), upgrade });
    let earlier = earlier.collect();
    let aliases = options.aliases.iter().map(|alias| {
        let name = alias.value();
        if name == base {
            errors.at(alias, format!("`{name}` is the kind itself: an alias is a name that the kind had before"));
        } else if stored(&name, version).len() > MAX_NAME_BYTES {
            errors.at(alias, format!("with its version, `.v{version}`, this alias is longer than 200 bytes"));
        }
        (oldest..=version).map(|version| stored(&name, version)).collect()
    });
    let aliases = aliases.collect();
    let oldest_name = options.aliases.first().map_or(base, LitStr::value);
    Kinds { kind, earlier, aliases, oldest_name }
}

fn stored(base: &str, version: u16) -> String {
    match version {
        1 => base.to_owned(),
        version => format!("{base}.v{version}"),
    }
}

fn check(options: &Options, version: u16, errors: &mut Errors) {
    let span_of = |option: &str| options.written.get(option).copied();
    if let (Some(span), Some(option)) = (span_of("version").or_else(|| span_of("upgrade")), options.schedule()) {
        let message =
            format!("the schedule of `{option}` enqueues this job without arguments, so they have no versions");
        return errors.push(syn::Error::new(span, message));
    }
    let earlier = usize::from(version - 1);
    match (&options.upgrade, span_of("upgrade"), span_of("version")) {
        (Some(upgrades), Some(span), _) if upgrades.len() > earlier => errors.push(syn::Error::new(
            span,
            match version {
                1 => "version 1 has no earlier versions: add `version = 2`, or remove `upgrade`".to_owned(),
                _ => format!("`upgrade` has {} functions, and should have one for each version before {version}, at most {earlier}", upgrades.len()),
            },
        )),
        (None, None, Some(span)) if earlier > 0 => errors.push(syn::Error::new(
            span,
            format!(
                "stored jobs of version {earlier} have other arguments: write `upgrade = from_v{earlier}`, a function from those \
                 arguments to this job; or `upgrade = []` if none are stored"
            ),
        )),
        _ => {}
    }
}
