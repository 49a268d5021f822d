//! Filters with which a user could guess secret arguments. A user who can filter by a value can find the value by
//! trying. So a filter by a hidden value must be refused.

use std::collections::BTreeMap;

use super::filter::{JobFilter, MAX_VALUES};
use crate::secrets;

/// The filter, if it cannot find out the value of a secret argument. The text says why it can.
///
/// `known` has each kind that this program knows, with the names of its secret arguments. `unknown_are_shown`: the
/// program shows the arguments of kinds that it does not know. Otherwise they may be secret, and a filter by arguments
/// that names no kind gets the known kinds.
pub(crate) fn searchable<'k>(
    filter: &JobFilter,
    known: impl IntoIterator<Item = (&'k str, &'k [&'k str])>,
    unknown_are_shown: bool,
) -> Result<JobFilter, String> {
    let names: Vec<&str> = filter.args.iter().filter_map(|arg| arg.path.first()).map(String::as_str).collect();
    if names.is_empty() {
        return Ok(filter.clone());
    }
    let known: BTreeMap<&str, &[&str]> = known.into_iter().collect();
    if filter.kinds.is_empty() {
        let kinds = among_known(&names, &known, unknown_are_shown)?;
        return Ok(JobFilter { kinds, ..filter.clone() });
    }
    for kind in &filter.kinds {
        match known.get(kind.as_str()) {
            Some(secrets) => names.iter().try_for_each(|name| refuse(kind, secrets, name))?,
            None if unknown_are_shown => {}
            None => {
                return Err(format!(
                    "this program does not know the kind {kind}, so it cannot tell which of its arguments are secret: they cannot be searched for"
                ));
            }
        }
    }
    Ok(filter.clone())
}

/// The kinds of a filter that names none. Empty: all kinds.
fn among_known(
    names: &[&str],
    known: &BTreeMap<&str, &[&str]>,
    unknown_are_shown: bool,
) -> Result<Vec<String>, String> {
    // All arguments of earlier versions of a kind may be secret. The others can be searched nevertheless.
    let (whole, some): (Vec<_>, Vec<_>) = known.iter().partition(|(_, secrets)| **secrets == secrets::ALL);
    for (kind, secrets) in &some {
        for name in names {
            refuse(kind, secrets, name)
                .map_err(|problem| format!("{problem}; to search jobs of other kinds, name them: kind:NAME"))?;
        }
    }
    if unknown_are_shown && whole.is_empty() {
        return Ok(Vec::new());
    }
    if unknown_are_shown || some.is_empty() || some.len() > MAX_VALUES {
        return Err(format!(
            "arguments of some kinds are secret or not known, so name the kinds that are searched: kind:NAME {}",
            names.iter().map(|name| format!("args.{name}:..")).collect::<Vec<_>>().join(" ")
        ));
    }
    Ok(some.into_iter().map(|(kind, _)| (*kind).to_owned()).collect())
}

/// Refuses a name that is, or may be, that of a secret argument.
fn refuse(kind: &str, secrets: &[&str], name: &str) -> Result<(), String> {
    if secrets.is_empty() {
        return Ok(());
    }
    if secrets == secrets::ALL {
        return Err(format!("the arguments of the kind {kind} may be secret: they cannot be searched for"));
    }
    if secrets.contains(&name) {
        return Err(format!("{name} is a secret argument of the kind {kind}: it cannot be searched for"));
    }
    // Arguments that are a list are hidden as a whole. PostgreSQL reads also -1 and 01 as places.
    if name.trim().parse::<i128>().is_ok() {
        return Err(format!(
            "{name} may be the place of a secret argument of the kind {kind}: it cannot be searched for"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [(&str, &[&str]); 4] =
        [("charge", &["card"]), ("login", secrets::ALL), ("mail", &[]), ("sum", &["a", "b"])];

    fn kinds(text: &str, unknown_are_shown: bool) -> Result<Vec<String>, String> {
        searchable(&text.parse().unwrap(), KNOWN, unknown_are_shown).map(|filter| filter.kinds)
    }

    #[test]
    fn a_filter_that_reaches_a_secret_is_refused() {
        for (text, part) in [
            ("args.card:4111", "card is a secret argument of the kind charge"),
            ("args.card.number:4111", "card is a secret argument of the kind charge"),
            ("args.order:1 args.card:4111", "card is a secret argument"),
            ("kind:mail,charge args.card:4111", "card is a secret argument of the kind charge"),
            ("args.0:4111", "0 may be the place of a secret argument of the kind charge"),
            ("args.0.x:4111", "may be the place"),
            ("kind:sum args.-1:4111", "-1 may be the place of a secret argument of the kind sum"),
            ("kind:sum args.01:4111", "may be the place"),
            ("kind:login args.user:ada", "the arguments of the kind login may be secret"),
            ("kind:other args.user:ada", "does not know the kind other"),
        ] {
            let problem = kinds(text, false).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        assert!(kinds("args.user:ada", true).unwrap_err().contains("name the kinds"));
        assert!(searchable(&"args.user:ada".parse().unwrap(), [], false).unwrap_err().contains("name the kinds"));
    }

    #[test]
    fn other_filters_search_where_nothing_is_secret() {
        let all = ["charge", "mail", "sum"].map(str::to_owned);
        assert_eq!(kinds("args.order:7", false), Ok(all.to_vec()), "neither unknown kinds nor earlier versions");
        assert_eq!(kinds("kind:mail args.card:7 args.0:x", false), Ok(vec!["mail".to_owned()]));
        assert_eq!(kinds("kind:other args.user:ada", true), Ok(vec!["other".to_owned()]));
        assert_eq!(kinds("error:4111 kind:login", false), Ok(vec!["login".to_owned()]));
        let plain: [(&str, &[&str]); 1] = [("mail", &[])];
        assert_eq!(searchable(&"args.to:x".parse().unwrap(), plain, true).unwrap().kinds, [""; 0]);
    }
}
