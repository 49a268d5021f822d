//! Where the URL of a database is: in the program, or in a file that may change while the program runs.

use std::fs;
use std::path::{Path, PathBuf};

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

/// No `Debug`: the URL may hold a password.
#[derive(Clone)]
pub(crate) enum UrlSource {
    /// The URL itself.
    Text(String),
    /// A file with the URL, such as a secret that Docker or Kubernetes mounts.
    File(PathBuf),
}

impl UrlSource {
    /// Returns the URL as it is now.
    pub(crate) fn read(&self) -> StorageResult<String> {
        match self {
            Self::Text(url) => Ok(url.clone()),
            Self::File(path) => read_url_file(path),
        }
    }

    /// Adds the file to an error in its URL.
    #[cfg(feature = "postgres")]
    pub(crate) fn blamed(&self, problem: StorageError) -> StorageError {
        match self {
            Self::Text(_) => problem,
            Self::File(path) => StorageError::Config(format!("the file {}: {problem}", path.display())),
        }
    }
}

/// Reads a database URL from a file, without a byte order mark, and without the blanks and line ends around it. Do not
/// print it: it may contain a password.
pub fn read_url_file(path: &Path) -> StorageResult<String> {
    let refused = |problem: String| StorageError::Config(format!("the file {} {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| match may_hold_a_password(&path.to_string_lossy()) {
        true => StorageError::Config(
            "the path of the file with the database URL is itself a URL, which is not repeated because it may contain a password; set \
             DATABASE_URL or --database-url to the URL, or DATABASE_URL_FILE or --database-url-file to the path of a file that contains it"
                .to_owned(),
        ),
        false => refused(format!("with the database URL cannot be read: {error}; correct its path or its content")),
    })?;
    match without_mark(&text).trim() {
        "" => Err(refused("is empty, and must contain the database URL".to_owned())),
        url => Ok(url.to_owned()),
    }
}

/// Whether a text that should be a path may be a URL with a password, so that it must not be printed.
pub fn may_hold_a_password(path: &str) -> bool {
    path.contains("://") || path.contains("password=") || path.contains('@') && !path.starts_with(['/', '.'])
}

/// Without the byte order mark that some editors and shells write before a text.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Decodes each `%40` of a part of a URL.
pub fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, hex) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_in_place_of_the_path_is_not_repeated() {
        for path in [
            "postgres://me:s3cret@h/x",
            "\"postgres://me:s3cret@h/x\"",
            "DATABASE_URL=postgres://h/x?password=s3cret",
            "me:s3cret@h/x",
            "host=h user=me password=s3cret",
        ] {
            let refusal = read_url_file(Path::new(path)).unwrap_err().to_string();
            assert!(refusal.contains("is itself a URL") && refusal.contains("DATABASE_URL "), "{refusal}");
            assert!(!refusal.contains("s3cret") && !refusal.contains("me:"), "{refusal}");
        }
        let refusal = read_url_file(Path::new("/run/@app/url")).unwrap_err().to_string();
        assert!(refusal.contains("the file /run/@app/url"), "{refusal}");
    }

    #[test]
    fn a_url_is_read_without_the_line_end_and_what_is_no_url_file_is_named() {
        let dir = std::env::temp_dir().join(format!("jobs-url-{}", uuid::Uuid::now_v7()));
        fs::create_dir(&dir).unwrap();
        let path = dir.join("url");
        let refusal = || read_url_file(&path).unwrap_err().to_string();
        assert!(refusal().contains("/url with the database URL cannot be read: No such file"), "{}", refusal());
        fs::write(&path, " \n").unwrap();
        assert!(refusal().contains("/url is empty"), "{}", refusal());
        fs::write(&path, b"postgres://me:s3cret\xff@h/x").unwrap();
        assert!(refusal().contains("UTF-8") && !refusal().contains("s3cret"), "{}", refusal());
        fs::write(&path, "\npostgres://me@h/x \r\n").unwrap();
        assert_eq!(read_url_file(&path).unwrap(), "postgres://me@h/x");
        fs::write(&path, "\u{feff}postgres://me@h/x\n").unwrap();
        assert_eq!(read_url_file(&path).unwrap(), "postgres://me@h/x");
        fs::write(&path, "\u{feff}\n").unwrap();
        assert!(refusal().contains("/url is empty"), "{}", refusal());
        fs::remove_dir_all(&dir).unwrap();
    }
}
