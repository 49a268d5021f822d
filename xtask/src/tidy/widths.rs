//! Requires that comments keep the width that rustfmt keeps for code.

use super::file::File;

/// `max_width` in rustfmt.toml.
const WIDTH: usize = 120;

/// Tables and code in comments cannot be wrapped. The programs of the compile-fail tests have errors at their lines.
pub(super) fn comments_fit(files: &[File]) -> Vec<String> {
    let checked = |file: &&File| file.is_rust() && !file.path.starts_with("tests/ui/");
    let complain = |file: &File| {
        let mut in_code = false;
        let too_wide = |(line, number): (&str, usize)| {
            let Some(text) = line.trim_start().strip_prefix("//") else {
                in_code = false;
                return None;
            };
            let text = text.trim_start_matches(['/', '!']).trim_start();
            in_code ^= text.starts_with("```");
            let longest = text.split(' ').map(str::len).max().unwrap_or_default();
            let can_be_wrapped = !in_code && !text.starts_with('|') && longest < WIDTH - 20;
            (can_be_wrapped && line.chars().count() > WIDTH)
                .then(|| format!("{}:{number}: a comment of more than {WIDTH} columns; wrap it", file.path))
        };
        file.text.lines().zip(1..).filter_map(too_wide).collect::<Vec<_>>()
    };
    files.iter().filter(checked).flat_map(complain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> usize {
        comments_fit(&[File { path: "src/a.rs".into(), text: text.into(), symlink: false }]).len()
    }

    #[test]
    fn a_wide_comment_is_named_but_for_tables_code_and_links() {
        let words = "word ".repeat(24);
        let after_code = format!("/// ```\nfn a() {{}}\n// {words}");
        for bad in [format!("// {words}"), format!("    /// {words}"), format!("//! {words}"), after_code] {
            assert_eq!(complaints(&bad), 1, "{bad}");
        }
        for good in [
            format!("/// {}", &words[..110]),
            format!("/// | {words} |"),
            format!("/// ```\n/// {words}\n/// ```"),
            format!("// - https://example.org/{}", "a".repeat(120)),
            format!("let text = \"{words}\";"),
        ] {
            assert_eq!(complaints(&good), 0, "{good}");
        }
    }
}
