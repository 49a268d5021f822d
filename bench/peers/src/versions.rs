//! The compared versions. They come from the lock file with which the program was built.

const LOCK: &str = include_str!("../Cargo.lock");

/// Returns the version of a package.
pub(crate) fn of(package: &str) -> &'static str {
    find(LOCK, package).unwrap_or("unknown")
}

fn find<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let value = |line: &'a str, key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
    let mut lines = lock.lines();
    lines.find(|line| value(line, "name") == Some(package))?;
    value(lines.next()?, "version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_below_the_name() {
        let lock = "[[package]]\nname = \"awa-model\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"awa\"\nversion = \"0.6.9\"\n";
        assert_eq!(find(lock, "awa"), Some("0.6.9"));
        assert_eq!(find(lock, "aw"), None);
    }

    #[test]
    fn every_system_has_one() {
        for name in crate::name::Name::all() {
            assert_ne!(of(name.package()), "unknown", "{}", name.text());
        }
    }
}
