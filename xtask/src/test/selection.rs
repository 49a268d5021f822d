//! Which tests the arguments of `cargo xtask test` select.

use std::process::Command;

/// Which tests the caller's arguments select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// All of them: no argument selects a sort of targets.
    Everything,
    /// Test programs.
    Programs,
    /// The tests in the documentation.
    Docs,
}

impl Selection {
    pub(super) fn of(arguments: &[String]) -> Self {
        const TARGETS: [&str; 11] = [
            "--lib",
            "--bins",
            "--bin",
            "--tests",
            "--test",
            "--examples",
            "--example",
            "--benches",
            "--bench",
            "--all-targets",
            "--no-run",
        ];
        let is = |names: &[&str]| {
            of_cargo(arguments).any(|argument| names.contains(&argument.split('=').next().unwrap_or_default()))
        };
        match (is(&["--doc"]), is(&TARGETS)) {
            (true, _) => Self::Docs,
            (false, true) => Self::Programs,
            (false, false) => Self::Everything,
        }
    }
}

/// The arguments for cargo. Those after `--` are for the test programs.
pub(super) fn of_cargo(arguments: &[String]) -> impl Iterator<Item = &String> {
    arguments.iter().take_while(|argument| *argument != "--")
}

/// The packages that the caller names.
fn packages(arguments: &[String]) -> Vec<&str> {
    let options: Vec<&String> = of_cargo(arguments).collect();
    options
        .iter()
        .enumerate()
        .filter_map(|(at, option)| match option.as_str() {
            "-p" | "--package" => options.get(at + 1).map(|name| name.as_str()),
            option => option.strip_prefix("--package=").or_else(|| option.strip_prefix("-p")),
        })
        .collect()
}

/// Whether the selected tests can include those of this package. A test's name alone does not say which package has it.
pub(super) fn includes(arguments: &[String], package: &str) -> bool {
    let named = packages(arguments);
    named.is_empty() || named.contains(&package)
}

/// Selects all packages, unless the caller names some.
pub(super) fn whole<'a>(command: &'a mut Command, arguments: &[String]) -> &'a mut Command {
    if packages(arguments).is_empty() {
        command.arg("--workspace");
    }
    command.args(["--all-features", "--no-fail-fast"]).args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::{Selection, includes, whole};
    use std::process::Command;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn line(arguments: &[&str]) -> String {
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let mut command = Command::new("cargo");
        let command = whole(&mut command, &arguments);
        command.get_args().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arguments_select_programs_or_docs() {
        let selected = |line: &str| Selection::of(&words(line));
        for line in ["", "name", "-p diesel-jobs", "-p diesel-jobs name -- --nocapture", "-- --test", "-- --doc"] {
            assert_eq!(selected(line), Selection::Everything, "{line}");
        }
        for line in ["--test conformance", "--test=conformance", "-p diesel-jobs --lib name", "--no-run"] {
            assert_eq!(selected(line), Selection::Programs, "{line}");
        }
        assert_eq!(selected("-p diesel-jobs --doc"), Selection::Docs);
    }

    #[test]
    fn naming_a_package_narrows_the_run() {
        assert_eq!(line(&["name"]), "--workspace --all-features --no-fail-fast name");
        assert_eq!(line(&["-p", "diesel-jobs-core"]), "--all-features --no-fail-fast -p diesel-jobs-core");
        assert_eq!(line(&["-pjobs-torture"]), "--all-features --no-fail-fast -pjobs-torture");
        assert_eq!(line(&["--", "-p"]), "--workspace --all-features --no-fail-fast -- -p");
    }
    #[test]
    fn a_selection_can_include_the_tests_of_a_package_unless_it_names_others() {
        for line in [
            "",
            "name",
            "-- -p other",
            "-p jobs-web-tests",
            "-p other -p jobs-web-tests",
            "--package jobs-web-tests -- name",
            "--package=jobs-web-tests",
        ] {
            assert!(includes(&words(line), "jobs-web-tests"), "{line}");
        }
        for line in
            ["-p diesel-jobs", "--package diesel-jobs --test conformance", "-p diesel-jobs -- -p jobs-web-tests"]
        {
            assert!(!includes(&words(line), "jobs-web-tests"), "{line}");
        }
    }
}
