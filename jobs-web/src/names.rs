//! Long lists of queues and kinds: the address may have a part of the name, and a page shows a bounded number.

use crate::failure::Failure;

/// How many rows a page shows.
const SHOWN: usize = 200;

/// The names that a page shows.
pub(crate) struct Names {
    /// The part of the name that is searched for. Empty: all names.
    pub(crate) part: String,
    /// How many names match.
    pub(crate) matching: usize,
    /// How many of them are left out.
    pub(crate) left_out: usize,
    /// How many names there are.
    pub(crate) all: usize,
}

impl Names {
    /// Reads the part of the name in the address.
    pub(crate) fn read(pairs: &[(String, String)]) -> Result<Self, Failure> {
        let mut part = String::new();
        for (name, value) in pairs {
            match name.as_str() {
                "name" => part.clone_from(value),
                other => return Err(Failure::Malformed(format!("There is no filter {other:?}. The filter is: name."))),
            }
        }
        Ok(Self { part, matching: 0, left_out: 0, all: 0 })
    }

    /// Keeps the rows whose name contains the part, at most [`SHOWN`].
    pub(crate) fn choose<T>(&mut self, rows: &mut Vec<T>, name: impl Fn(&T) -> &str) {
        self.all = rows.len();
        let part = self.part.to_lowercase();
        rows.retain(|row| name(row).to_lowercase().contains(&part));
        self.matching = rows.len();
        rows.truncate(SHOWN);
        self.left_out = self.matching - rows.len();
    }

    /// Whether the page needs a field for a part of the name.
    pub(crate) fn is_needed(&self) -> bool {
        self.all > 20 || !self.part.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_matching_names_is_chosen() {
        let mut names = Names::read(&[("name".to_owned(), "MAIL".to_owned())]).unwrap_or_else(|_| panic!("refused"));
        let mut rows: Vec<String> = (0..300).flat_map(|n| [format!("mail_{n}"), format!("other_{n}")]).collect();
        names.choose(&mut rows, String::as_str);
        assert_eq!((rows.len(), names.matching, names.left_out, names.all), (200, 300, 100, 600));
        assert!(Names::read(&[("nam".to_owned(), String::new())]).is_err());
    }
}
