//! The canonical text of JSON: equal values have the same text. All keys are made of it. It is computed from the text
//! that is stored, so no number passes through a float. The SQL function `jobs.canonical` makes the same text, and
//! `jobs.key` the same keys.
//!
//! - The names of an object are sorted by their bytes. Of two fields with the same name, the last one counts.
//! - A number is written out in digits, without an exponent and without zeros that change nothing: `1`, `1.0` and
//!   `10e-1` are `1`, and `-0` is `0`.
//! - A text has only the escapes that JSON requires.

mod number;
mod reader;

use reader::Reader;

use crate::key_problem::KeyProblem;

/// The canonical text of this JSON.
pub(crate) fn canonical(json: &str) -> Result<String, KeyProblem> {
    let mut reader = Reader::new(json);
    let mut text = String::with_capacity(json.len());
    reader.write(&mut text)?;
    reader.end()?;
    Ok(text)
}

/// The canonical texts of these fields of a JSON object, in the order of the names.
pub(crate) fn fields(json: &str, names: &[&str]) -> Result<Vec<String>, KeyProblem> {
    let mut places: Vec<Option<usize>> = vec![None; names.len()];
    let mut reader = Reader::new(json);
    if !reader.is_object() {
        return Err(KeyProblem::NoObject);
    }
    reader.object(|reader, name| {
        for (place, wanted) in places.iter_mut().zip(names) {
            if name == *wanted {
                *place = Some(reader.place());
            }
        }
        reader.pass_over()
    })?;
    reader.end()?;
    let field = |(place, name): (Option<usize>, &&str)| {
        let place = place.ok_or_else(|| KeyProblem::Missing((*name).to_owned()))?;
        let mut text = String::new();
        Reader::at(json, place).write(&mut text)?;
        Ok(text)
    };
    places.into_iter().zip(names).map(field).collect()
}

/// The canonical texts of the values of a JSON list.
pub(crate) fn items(json: &str) -> Result<Vec<String>, KeyProblem> {
    let mut items = Vec::new();
    let mut reader = Reader::new(json);
    reader.list(|reader| {
        let mut text = String::new();
        reader.write(&mut text)?;
        items.push(text);
        Ok(())
    })?;
    reader.end()?;
    Ok(items)
}

#[cfg(test)]
mod tests;
