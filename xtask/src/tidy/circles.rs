//! Forbids circular dependencies between files, even through other files. So a reader of one file never needs to have
//! read the other first.
//!
//! The dependencies of a file are its paths that begin with `crate::`, `super::` or `self::`, or with a submodule.
//! `mod` declarations and tests do not count. What a submodule uses from the file of a module around it does not count
//! either: that file exists for its submodules.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{File, code};

type Path = Vec<String>;

/// Returns one complaint for each set of files that depend on each other.
pub(super) fn circles(files: &[File]) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<Path, &File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        if let Some((package, module)) = module_of(&file.path) {
            crates.entry(package).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(circles_of).collect()
}

/// Returns the directory of the package, and the module's path in its crate.
fn module_of(path: &str) -> Option<(&str, Path)> {
    let (package, within) =
        path.strip_prefix("src/").map(|within| ("", within)).or_else(|| path.split_once("/src/"))?;
    let within = within.strip_suffix(".rs")?;
    let mut module: Path = within.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    // Programs in `bin` are crates of their own.
    (module.first().map(String::as_str) != Some("bin")).then_some((package, module))
}

fn circles_of(modules: &BTreeMap<Path, &File>) -> Vec<String> {
    let needs: BTreeMap<&Path, BTreeSet<&Path>> =
        modules.iter().map(|(module, file)| (module, needs(modules, module, &file.text))).collect();
    let mut reported: BTreeSet<&Path> = BTreeSet::new();
    let mut complaints = Vec::new();
    for module in modules.keys() {
        let reached = reach(&needs, module);
        if !reached.contains(module) || reported.contains(module) {
            continue;
        }
        let circle: Vec<&Path> = reached.into_iter().filter(|other| reach(&needs, other).contains(module)).collect();
        let ties = circle.iter().flat_map(|from| {
            let to = needs[from].iter().filter(|to| circle.contains(to));
            to.map(|to| format!("\n    {} needs {}", modules[*from].path, modules[*to].path))
        });
        complaints.push(format!(
            "{}: {} files need each other; move what both need into a file below them{}",
            modules[module].path,
            circle.len(),
            ties.collect::<String>()
        ));
        reported.extend(circle);
    }
    complaints
}

/// Returns all modules that `from` depends on, directly or indirectly.
fn reach<'a>(needs: &BTreeMap<&'a Path, BTreeSet<&'a Path>>, from: &Path) -> BTreeSet<&'a Path> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        for needed in needs.get(next).into_iter().flatten() {
            if reached.insert(*needed) {
                open.push(needed);
            }
        }
    }
    reached
}

/// Returns the modules whose files this text names.
fn needs<'a>(modules: &'a BTreeMap<Path, &File>, module: &Path, text: &str) -> BTreeSet<&'a Path> {
    let mut named = Vec::new();
    let code = production(text);
    for (at, _) in code.match_indices("::") {
        let start = code[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |before| before + 1);
        let begins = !code[..start].ends_with("::") && !code[..start].ends_with('$');
        let first = &code[start..at];
        let base = match first {
            "crate" => Some(Vec::new()),
            "self" => Some(module.clone()),
            "super" => Some(module[..module.len().saturating_sub(1)].to_vec()),
            child => {
                let mut path = module.clone();
                path.push(child.to_owned());
                modules.contains_key(&path).then_some(path)
            }
        };
        if let Some(base) = base.filter(|_| begins) {
            expand(&code[at + 2..], base, &mut named);
        }
    }
    // A name is in the file of the longest module path that is a prefix of the name.
    let file_of = |name: &Path| {
        (0..=name.len()).rev().find_map(|length| modules.get_key_value(&name[..length])).map(|(module, _)| module)
    };
    named.iter().filter_map(file_of).filter(|needed| !module.starts_with(needed)).collect()
}

/// Returns the code without comments and tests.
fn production(text: &str) -> String {
    let (mut kept, mut of_test) = (String::new(), false);
    for line in text.lines() {
        let line = code(line);
        match line.trim() {
            "#[cfg(test)]" => of_test = true,
            attribute if of_test && attribute.starts_with("#[") => {}
            item if of_test => {
                // A test module in the file is its last item.
                if item.ends_with('{') {
                    break;
                }
                of_test = false;
            }
            _ => {
                kept += line;
                kept.push('\n');
            }
        }
    }
    kept
}

/// Collects the names that a path stands for, starting after its first `::`: one, or one for each in braces. Returns
/// the text after the path.
fn expand<'a>(mut rest: &'a str, mut path: Path, named: &mut Vec<Path>) -> &'a str {
    loop {
        rest = rest.trim_start();
        if let Some(mut list) = rest.strip_prefix('{') {
            loop {
                list = expand(list, path.clone(), named).trim_start();
                // A name may be followed by `as Other`.
                let end = list.find([',', '}']).unwrap_or(list.len());
                match list[end..].strip_prefix(',') {
                    Some(more) => list = more.trim_start(),
                    None => return list[end..].strip_prefix('}').unwrap_or(""),
                }
                if let Some(after) = list.strip_prefix('}') {
                    return after;
                }
            }
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        match name {
            "" | "self" => {}
            "super" => {
                path.pop();
            }
            // The path of a macro is left out: it belongs to the crate, not to the module.
            _ if after.starts_with('!') => return after,
            _ => path.push(name.to_owned()),
        }
        match after.strip_prefix("::") {
            Some(deeper) if !deeper.starts_with('<') => rest = deeper,
            _ => {
                named.push(path);
                return after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into(), symlink: false };
        circles(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn files_that_need_each_other_are_named() {
        for (a, b) in [
            ("use crate::b::B;", "use super::a::A;"),
            ("use crate::{b::{self, B as Other}, c};", "fn f() -> crate::a::A {}"),
            ("use super::{c::C,\n b::B,\n};", "use crate::a;"),
        ] {
            let found = complaints(&[("x/src/a.rs", a), ("x/src/b.rs", b), ("x/src/c.rs", "")]);
            assert_eq!(found.len(), 1, "{a} {b}");
            assert!(found[0].contains("x/src/a.rs needs x/src/b.rs") && !found[0].contains("c.rs"), "{found:?}");
        }
        let around =
            [("src/a.rs", "use crate::b::B;"), ("src/b/mod.rs", "use crate::c::C;"), ("src/c.rs", "use crate::a::A;")];
        assert_eq!(complaints(&around).len(), 1);
    }

    #[test]
    fn circles_in_tests_or_comments_only_are_accepted() {
        for b in [
            "// as crate::a::A does",
            "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}",
            "crate::a!(B);",
            "use other::a::A;",
            "#[cfg(test)]\n#[path = \"b_tests.rs\"]\nmod tests;\nuse crate::c::C;",
        ] {
            let found = complaints(&[("x/src/a.rs", "use crate::b::B;"), ("x/src/b.rs", b), ("x/src/c.rs", "")]);
            assert_eq!(found, Vec::<String>::new(), "{b}");
        }
        let parent = [("src/a/mod.rs", "mod b;\npub use b::B;\nstruct A;"), ("src/a/b.rs", "use super::A;")];
        assert_eq!(complaints(&parent), Vec::<String>::new());
        let apart = [
            ("x/src/a.rs", "use crate::b::B;"),
            ("x/src/b.rs", ""),
            ("y/src/b.rs", "use crate::a::A;"),
            ("y/src/a.rs", ""),
        ];
        assert_eq!(complaints(&apart), Vec::<String>::new());
    }
}
