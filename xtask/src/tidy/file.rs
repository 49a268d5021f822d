//! A file as input of the rules.

/// A file of the workspace.
pub(super) struct File {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    /// The file's text. For a symlink, its target.
    pub(super) text: String,
    pub(super) symlink: bool,
}

impl File {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    pub(super) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
    }

    pub(super) fn complain(&self, check: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let lines = self.text.lines().enumerate();
        lines.filter_map(|(at, line)| Some(format!("{}:{}: {}", self.path, at + 1, check(line)?))).collect()
    }
}

/// Returns the line without its comment.
pub(super) fn code(line: &str) -> &str {
    let mut in_string = false;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match c {
            '"' if before != '\\' && before != '\'' => in_string = !in_string,
            '/' if before == '/' && !in_string => return &line[..at - 1],
            _ => {}
        }
        before = if before == '\\' && c == '\\' { ' ' } else { c };
    }
    line
}
