//! Reads JSON text from left to right. `serde_json` would read a large number as a float.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::number;
use crate::json_depth::MAX_DEPTH;
use crate::key_problem::KeyProblem;

pub(super) struct Reader<'a> {
    json: &'a str,
    place: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(json: &'a str) -> Self {
        Self::at(json, 0)
    }

    pub(super) fn at(json: &'a str, place: usize) -> Self {
        Self { json, place, depth: 0 }
    }

    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// Whether the next value is an object.
    pub(super) fn is_object(&mut self) -> bool {
        self.peek() == Some(b'{')
    }

    /// Fails if anything but spaces is left.
    pub(super) fn end(mut self) -> Result<(), KeyProblem> {
        if self.peek().is_none() { Ok(()) } else { Err(KeyProblem::NoJson) }
    }

    /// Writes the canonical text of the next value.
    pub(super) fn write(&mut self, out: &mut String) -> Result<(), KeyProblem> {
        match self.peek() {
            Some(b'{') => {
                let mut fields = BTreeMap::new();
                self.object(|reader, name| {
                    let mut value = String::new();
                    reader.write(&mut value)?;
                    fields.insert(name.into_owned(), value);
                    Ok(())
                })?;
                out.push('{');
                for (number, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { "," });
                    write_text(name, out)?;
                    out.push(':');
                    out.push_str(value);
                }
                out.push('}');
            }
            Some(b'[') => {
                out.push('[');
                let mut is_first = true;
                self.list(|reader| {
                    out.push_str(if is_first { "" } else { "," });
                    is_first = false;
                    reader.write(out)
                })?;
                out.push(']');
            }
            Some(b'"') => write_text(&self.text()?, out)?,
            Some(b'-' | b'0'..=b'9') => number::write(self.number()?, out)?,
            _ => out.push_str(self.word()?),
        }
        Ok(())
    }

    /// Passes over the next value.
    pub(super) fn pass_over(&mut self) -> Result<(), KeyProblem> {
        match self.peek() {
            Some(b'{') => self.object(|reader, _| reader.pass_over()),
            Some(b'[') => self.list(Self::pass_over),
            Some(b'"') => self.text().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            _ => self.word().map(drop),
        }
    }

    /// Reads an object. `field` reads the value of the field with this name.
    pub(super) fn object(
        &mut self,
        mut field: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), KeyProblem>,
    ) -> Result<(), KeyProblem> {
        self.members([b'{', b'}'], |reader| {
            let name = reader.text()?;
            reader.expect(b':')?;
            field(reader, name)
        })
    }

    /// Reads a list. `item` reads one of its values.
    pub(super) fn list(&mut self, item: impl FnMut(&mut Self) -> Result<(), KeyProblem>) -> Result<(), KeyProblem> {
        self.members([b'[', b']'], item)
    }

    fn members(
        &mut self,
        [open, close]: [u8; 2],
        mut member: impl FnMut(&mut Self) -> Result<(), KeyProblem>,
    ) -> Result<(), KeyProblem> {
        self.expect(open)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(KeyProblem::Deep);
        }
        if self.peek() != Some(close) {
            member(self)?;
            while self.peek() == Some(b',') {
                self.place += 1;
                member(self)?;
            }
        }
        self.depth -= 1;
        self.expect(close)
    }

    /// Reads a text, without its quotes and escapes.
    fn text(&mut self) -> Result<Cow<'a, str>, KeyProblem> {
        self.expect(b'"')?;
        let begin = self.place;
        let bytes = self.json.as_bytes();
        let mut has_escapes = false;
        loop {
            match bytes.get(self.place) {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    self.place += 2;
                }
                Some(0x20..) => self.place += 1,
                _ => return Err(KeyProblem::NoJson),
            }
        }
        let text = &self.json[begin..self.place];
        self.place += 1;
        if !has_escapes {
            return Ok(Cow::Borrowed(text));
        }
        // Every escape of four digits is one, and the only other fault is half of a surrogate pair.
        serde_json::from_str(&self.json[begin - 1..self.place]).map(Cow::Owned).map_err(|_| KeyProblem::Escape)
    }

    fn number(&mut self) -> Result<&'a str, KeyProblem> {
        let begin = self.place;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(&self.json[begin..self.place])
    }

    fn digits(&mut self) -> Result<(), KeyProblem> {
        let rest = &self.json.as_bytes()[self.place..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.place += digits;
        if digits > 0 { Ok(()) } else { Err(KeyProblem::NoJson) }
    }

    fn word(&mut self) -> Result<&'static str, KeyProblem> {
        let rest = &self.json.as_bytes()[self.place..];
        let word = ["null", "true", "false"].into_iter().find(|word| rest.starts_with(word.as_bytes()));
        let word = word.ok_or(KeyProblem::NoJson)?;
        self.place += word.len();
        Ok(word)
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.json.as_bytes().get(self.place..)?;
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.place += spaces;
        rest.get(spaces).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), KeyProblem> {
        if self.peek() == Some(byte) && self.take(byte) { Ok(()) } else { Err(KeyProblem::NoJson) }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.json.as_bytes().get(self.place) == Some(&byte);
        self.place += usize::from(is_next);
        is_next
    }
}

fn write_text(text: &str, out: &mut String) -> Result<(), KeyProblem> {
    if text.contains('\0') {
        return Err(KeyProblem::Nul);
    }
    // A text can always be written as JSON.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
    Ok(())
}
