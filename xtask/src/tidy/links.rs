//! Requires that relative links in Markdown lead somewhere: to a file or a directory in git, and to a heading of that
//! page.

use std::collections::{HashMap, HashSet};

use super::file::File;

pub(super) fn no_dead_links(files: &[File]) -> Vec<String> {
    let pages: HashMap<&str, HashSet<String>> =
        files.iter().filter(|file| file.is_markdown()).map(|file| (&*file.path, anchors(&file.text))).collect();
    let is_within = |file: &File, path: &str| {
        file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let exists = |path: &str| files.iter().any(|file| is_within(file, path));
    let complain = |file: &File, line: usize, target: &str| {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { Some(file.path.clone()) } else { beside(&file.path, path) };
        let Some(path) = path else {
            return Some(format!("{}:{line}: a link out of the workspace: {target}", file.path));
        };
        if !path.is_empty() && !exists(&path) {
            return Some(format!("{}:{line}: a link to {path}, which is not in git", file.path));
        }
        let page = pages.get(&*path).filter(|_| !anchor.is_empty())?;
        let dead = || format!("{}:{line}: a link to #{anchor}, but {path} has no such heading", file.path);
        (!page.contains(anchor)).then(dead)
    };
    let of_page = |file: &File| {
        let links = prose(&file.text).flat_map(|(line, text)| targets(text).map(move |target| (line, target)));
        links.filter_map(|(line, target)| complain(file, line, target)).collect::<Vec<_>>()
    };
    files.iter().filter(|file| file.is_markdown() && !file.symlink).flat_map(of_page).collect()
}

/// Returns the lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut open = None::<usize>;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let ticks = line.trim_start().bytes().take_while(|byte| *byte == b'`').count();
        let is_fence = ticks >= 3 && open.is_none_or(|open| ticks >= open);
        if is_fence {
            open = if open.is_some() { None } else { Some(ticks) };
        }
        (open.is_none() && !is_fence).then_some((number, line))
    })
}

/// Returns the targets of the relative links in this line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()).filter(|target| !target.contains(':'))
}

/// Resolves a path that is relative to the directory of a page. `None` if it leads out of the workspace.
fn beside(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the anchors of the headings, as GitHub names them.
fn anchors(text: &str) -> HashSet<String> {
    let mut seen = HashMap::<String, usize>::new();
    let headings = prose(text)
        .filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let anchor = |heading: &str| {
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let name: String = without_targets(heading).trim().to_lowercase().chars().filter(kept).collect();
        let name = name.replace(' ', "-");
        let before = seen.entry(name.clone()).or_default();
        *before += 1;
        if *before == 1 { name } else { format!("{name}-{}", *before - 1) }
    };
    headings.map(anchor).collect()
}

/// Returns a heading with the texts of its links, without their targets.
fn without_targets(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(page: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into(), symlink: false };
        let other = "# A page\n\n## What it `does`, and why\n\n```sh\n# no heading\n```\n\n## Twice\n\n## Twice\n\n## [A link](docs/a.md) here\n";
        no_dead_links(&[file("docs/a.md", page), file("README.md", other), file("src/lib.rs", "")])
    }

    #[test]
    fn links_to_files_directories_headings_and_other_sites_are_fine() {
        for good in [
            "[x](../README.md)",
            "[x](../README.md#a-page), [y](../README.md#what-it-does-and-why)",
            "[x](../README.md#twice-1) and [y](../README.md#a-link-here)",
            "[x](../src) [y](../src/) [z](../)",
            "## Here\n\n[x](#here)",
            "[x](https://example.org/a.md#b)",
            "```text\n[x](gone.md)\n```",
            "````text\n```\n[x](gone.md)\n```\n````",
        ] {
            assert_eq!(complaints(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named_with_its_line() {
        for bad in [
            "[x](gone.md)",
            "[x](../READ)",
            "[x](../README.md#no-heading)",
            "[x](#gone)",
            "![x](x.png)",
            "[x](../../README.md)",
        ] {
            let found = complaints(&format!("\n{bad}"));
            assert!(matches!(&found[..], [one] if one.starts_with("docs/a.md:2: ")), "{bad}: {found:?}");
        }
    }
}
