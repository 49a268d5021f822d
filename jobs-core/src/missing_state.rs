//! The error text for a state that a worker does not have: the states that it has, and the probable correction.

/// Returns the states that the worker has, and advice if one of them is nearly the same.
pub(crate) fn explain(taken: &str, given: &[&'static str]) -> (String, Option<String>) {
    let near = given.iter().find_map(|given| near_miss(taken, given));
    let given = match given {
        [] => "it was given no state at all".to_owned(),
        given => format!("it was given {}", given.join(", ")),
    };
    (given, near)
}

/// Returns the advice for a worker. `near`: the advice if a state of nearly the same type was given.
pub(crate) fn advice(taken: &str, near: Option<&str>) -> String {
    near.map_or_else(
        || {
            format!(
                "give it one with `.state(..)`, in the function named by `diesel_jobs::worker!(.., setup = ..)` or on your own \
                 builder, as exactly the type {taken}; or add a layer that names it in `provides`"
            )
        },
        str::to_owned,
    )
}

/// Returns advice if the two are the same type apart from a pointer or a reference, or different types with the same
/// name.
fn near_miss(taken: &str, given: &str) -> Option<String> {
    if wraps(given, taken) {
        return Some(format!("take State<{}> instead, or give the {} itself", short(given), short(taken)));
    }
    if wraps(taken, given) {
        return Some(format!("give it as {}, or take State<{}> instead", short(taken), short(given)));
    }
    (short(taken) == short(given)).then(|| format!("{given} is another type: give it {taken}, or take the other one"))
}

/// Whether `outer` is `Arc<inner>`, `&inner` or the like.
fn wraps(outer: &str, inner: &str) -> bool {
    let inside = outer.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
    inside == Some(inner) || outer.strip_prefix("&mut ").or_else(|| outer.strip_prefix('&')) == Some(inner)
}

/// Returns the name without its module path.
fn short(name: &str) -> String {
    let mut short = String::new();
    for part in name.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        short.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_references_are_near_misses() {
        for (taken, given, advice) in [
            (
                "app::Mailer",
                "alloc::sync::Arc<app::Mailer>",
                "take State<Arc<Mailer>> instead, or give the Mailer itself",
            ),
            ("alloc::sync::Arc<app::Mailer>", "app::Mailer", "give it as Arc<Mailer>, or take State<Mailer> instead"),
            ("app::Mailer", "&app::Mailer", "take State<&Mailer> instead, or give the Mailer itself"),
            (
                "app::Mailer",
                "app::v1::Mailer",
                "app::v1::Mailer is another type: give it app::Mailer, or take the other one",
            ),
        ] {
            assert_eq!(explain(taken, &["u8", given]), (format!("it was given u8, {given}"), Some(advice.to_owned())));
        }
    }

    #[test]
    fn what_is_not_near_is_listed_and_the_builder_is_named() {
        for given in ["alloc::vec::Vec<app::Mailers>", "app::Mail", "&app::Mail"] {
            assert_eq!(explain("app::Mailer", &[given]).1, None, "{given}");
        }
        assert!(advice("app::Mailer", None).contains("`.state(..)`"));
        assert_eq!(advice("app::Mailer", Some("take State<&Mailer> instead")), "take State<&Mailer> instead");
        assert_eq!(explain("app::Mailer", &[]).0, "it was given no state at all");
    }
}
