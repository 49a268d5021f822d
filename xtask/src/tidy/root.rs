//! Keeps the root of the facade, and its prelude, small enough to read at a glance.

use std::collections::BTreeSet;

use super::file::{File, code};

/// What docs.rs shows first: types, traits, functions, macros and modules together.
const MOST_IN_ROOT: usize = 50;
/// What a module with jobs gets from `use diesel_jobs::prelude::*`. Traits without a name do not count.
const MOST_IN_PRELUDE: usize = 7;

/// Limits how many names `src/lib.rs` and `src/prelude.rs` make public.
pub(super) fn small_root(files: &[File]) -> Vec<String> {
    let of = |path: &str| files.iter().filter(|file| file.path == path).flat_map(public_names).collect();
    let mut root: BTreeSet<String> = of("src/lib.rs");
    root.extend(files.iter().filter(|file| file.path.starts_with("src/")).flat_map(exported_macros));
    let mut complaints = complain("src/lib.rs", "the root of the crate", root, MOST_IN_ROOT);
    complaints.extend(complain("src/prelude.rs", "the prelude", of("src/prelude.rs"), MOST_IN_PRELUDE));
    complaints
}

fn complain(path: &str, what: &str, names: BTreeSet<String>, most: usize) -> Vec<String> {
    let mut complaints = Vec::new();
    if names.contains("*") {
        complaints.push(format!("{path}: {what} re-exports with `*`, so its names cannot be counted; list them"));
    }
    if names.len() > most {
        let list = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let count = names.len();
        complaints.push(format!(
            "{path}: {what} has {count} names, and at most {most} are allowed; move some into a module: {list}"
        ));
    }
    complaints
}

/// The names of the public items at the left margin. Hidden items, whose names start with `__`, do not count.
fn public_names(file: &File) -> Vec<String> {
    let text: String = file.text.lines().map(|line| format!("\n{}", code(line))).collect();
    let mut names = Vec::new();
    for (at, start) in text.match_indices("\npub ") {
        let item = &text[at + start.len()..];
        match item.split_once(' ') {
            Some(("use", rest)) => {
                let tree = rest.split(';').next().unwrap_or_default();
                names.extend(tree.split([',', '{', '}']).map(leaf).map(str::to_owned));
            }
            Some((_, rest)) => {
                let words = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
                let keywords = ["async", "const", "fn", "unsafe"];
                names.extend(words.filter(|word| !keywords.contains(word)).take(1).map(str::to_owned));
            }
            None => {}
        }
    }
    names.retain(|name| !name.is_empty() && name != "_" && !name.starts_with("__"));
    names
}

/// The name under which one path of a `use` is public. Empty for the path before a list.
fn leaf(path: &str) -> &str {
    let name = path.rsplit_once(" as ").map_or(path, |(_, name)| name);
    name.rsplit("::").next().unwrap_or_default().trim()
}

/// The names of the macros that `#[macro_export]` puts into the root.
fn exported_macros(file: &File) -> Vec<String> {
    let exported = file.text.split("#[macro_export]").skip(1);
    let name = |rest: &str| {
        let name = rest.split_once("macro_rules! ")?.1.split([' ', '{']).next()?;
        (!name.starts_with("__")).then(|| name.to_owned())
    };
    exported.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into(), symlink: false };
        small_root(&files.iter().map(file).collect::<Vec<_>>())
    }

    /// This many different names in a list.
    fn names(count: usize) -> String {
        (0..count).map(|at| format!("Name{at}")).collect::<Vec<_>>().join(",\n    ")
    }

    #[test]
    fn a_root_with_too_many_names_is_listed() {
        let listed = format!("pub use core::{{\n    {},\n}};\n", names(47));
        let full = format!("{listed}mod macros;\npub mod rules;\npub use other::{{a::B, c::D as E}};\n");
        assert_eq!(complaints(&[("src/lib.rs", &full)]), Vec::<String>::new());
        for more in
            ["pub mod rows;", "pub use x::Y;", "pub use x::B as Y;", "pub async fn f() {}", "pub const C: u8 = 1;"]
        {
            let found = complaints(&[("src/lib.rs", &format!("{full}{more}\n"))]);
            assert_eq!(found.len(), 1, "{more}");
            assert!(
                found[0].contains("has 51 names") && found[0].contains("Name46") && found[0].contains("rules"),
                "{found:?}"
            );
        }
        let exported = "#[macro_export]\nmacro_rules! assert_it {\n    () => {};\n}\n";
        assert_eq!(complaints(&[("src/lib.rs", &full), ("src/testing.rs", exported)]).len(), 1);
    }

    #[test]
    fn hidden_and_repeated_names_do_not_count() {
        let full = format!("pub use core::{{{}}};\n", names(50));
        for more in [
            "pub use macros::Name0;",
            "// pub mod rows;",
            "pub(crate) mod rows;",
            "#[doc(hidden)]\npub mod __private {\n    pub use core::X;\n}",
            "#[doc(hidden)]\n#[macro_export]\nmacro_rules! __compare {}",
        ] {
            assert_eq!(complaints(&[("src/lib.rs", &format!("{full}{more}\n"))]), Vec::<String>::new(), "{more}");
        }
        assert_eq!(complaints(&[("jobs-core/src/lib.rs", &format!("{full}pub mod rows;\n"))]), Vec::<String>::new());
    }

    #[test]
    fn a_prelude_with_too_many_names_or_a_star_is_named() {
        let full = format!("pub use crate::{{{}}};\npub use crate::handler::{{A as _, B as _}};\n", names(7));
        assert_eq!(complaints(&[("src/prelude.rs", &full)]), Vec::<String>::new());
        assert_eq!(complaints(&[("src/prelude.rs", &format!("{full}pub use crate::rows::Ref;\n"))]).len(), 1);
        assert_eq!(complaints(&[("src/prelude.rs", "pub use crate::rules::*;\n")]).len(), 1);
    }
}
