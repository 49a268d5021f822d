//! Each public enum says whether it may get new variants.

use super::file::File;

const PUBLISHED: [&str; 5] = ["src/", "jobs-core/src/", "jobs-diesel/src/", "jobs-macros/src/", "jobs-web/src/"];

/// Requires that a public enum is `#[non_exhaustive]`, or that its documentation says why it is exhaustive. A type
/// without variants, which marks something, is exempt.
pub(super) fn open_enums(files: &[File]) -> Vec<String> {
    let published = |file: &&File| file.is_rust() && PUBLISHED.iter().any(|root| file.path.starts_with(root));
    files.iter().filter(published).flat_map(complaints).collect()
}

fn complaints(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let says = |at: usize| {
        let above = lines[..at].iter().rev().take_while(|line| !line.is_empty());
        above.into_iter().any(|line| {
            *line == "#[non_exhaustive]" || line.starts_with("///") && line.to_lowercase().contains("exhaustive")
        })
    };
    let complain = |(at, line): (usize, &&str)| {
        let rest = line.strip_prefix("pub enum ")?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let is_open = rest.ends_with("{}") || says(at);
        (!is_open).then(|| {
            let place = format!("{}:{}", file.path, at + 1);
            format!("{place}: `{name}` may get variants; add #[non_exhaustive], or say in its doc why it is exhaustive")
        })
    };
    lines.iter().enumerate().filter_map(complain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        open_enums(&[File { path: path.into(), text: text.into(), symlink: false }]).len()
    }

    #[test]
    fn an_enum_that_says_nothing_is_named() {
        let silent = "/// An answer.\n#[derive(Debug)]\npub enum Answer {\n    Yes,\n}\n";
        assert_eq!(complaints("jobs-core/src/a.rs", silent), 1);
        assert_eq!(complaints("bench/src/a.rs", silent), 0);
        let other = format!("#[non_exhaustive]\npub enum Other {{\n    A,\n}}\n\n{silent}");
        assert_eq!(complaints("src/a.rs", &other), 1);
        for good in [
            "/// An answer.\n#[derive(Debug)]\n#[non_exhaustive]\npub enum Answer {\n    Yes,\n}\n",
            "/// Internal, and exhaustive.\npub enum Answer {\n    Yes,\n}\n",
            "/// Marks something.\npub enum Marker {}\n",
            "pub(crate) enum Answer {\n    Yes,\n}\n",
        ] {
            assert_eq!(complaints("jobs-core/src/a.rs", good), 0, "{good}");
        }
    }
}
