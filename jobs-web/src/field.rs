//! The fields of forms, with what was written into them and what is wrong with it. All forms of the dashboard show a
//! mistake in the same way: the form again, the message beside its field, and status 400.

use askama::Template;

use crate::format::{self, sentence};

/// A field of a form.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Names between backticks are shown as code.
    pub(crate) label: String,
    pub(crate) value: String,
    pub(crate) required: bool,
    pub(crate) hint: &'static str,
    pub(crate) input: Input,
    /// Values that the browser suggests.
    pub(crate) suggestions: Vec<String>,
    /// What is wrong with the value.
    pub(crate) problem: Option<String>,
}

/// A field as a page shows it.
#[derive(Template)]
#[template(path = "field.html")]
pub(crate) struct Shown<'f> {
    field: &'f Field,
    marks_optional: bool,
}

impl askama::filters::HtmlSafe for Shown<'_> {}

/// How a field is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// One line.
    Line,
    /// One wide line with the words of a filter.
    Words,
    /// Several lines.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// What is wrong with a form.
#[derive(Debug)]
pub(crate) struct Mistake {
    /// The field that has it. `None`: the form as a whole.
    pub(crate) field: Option<&'static str>,
    /// What is wrong, and what is allowed.
    pub(crate) text: String,
}

impl Mistake {
    /// A mistake in this field.
    pub(crate) fn of(field: &'static str, text: &str) -> Self {
        Self { field: Some(field), text: sentence(text) }
    }

    /// A mistake of the form as a whole.
    pub(crate) fn of_form(text: &str) -> Self {
        Self { field: None, text: sentence(text) }
    }

    /// The field that has it, among these.
    pub(crate) fn place<'f>(&self, fields: &'f [Field]) -> Option<&'f Field> {
        fields.iter().find(|field| Some(field.name) == self.field)
    }
}

impl Field {
    /// A line that must be filled in.
    pub(crate) fn line(name: &'static str, label: &str, hint: &'static str) -> Self {
        Self {
            name,
            label: label.to_owned(),
            value: String::new(),
            required: true,
            hint,
            input: Input::Line,
            suggestions: Vec::new(),
            problem: None,
        }
    }

    /// Why something is done, in one line.
    pub(crate) fn reason() -> Self {
        Self::line("reason", "Reason", "Pages and commands show it with your name.").optional()
    }

    pub(crate) fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    pub(crate) fn suggesting(self, values: &[String]) -> Self {
        Self { suggestions: values.to_vec(), ..self }
    }

    pub(crate) fn filled_by(self, input: Input) -> Self {
        Self { input, ..self }
    }

    pub(crate) fn holding(self, value: impl Into<String>) -> Self {
        Self { value: value.into(), ..self }
    }

    /// The field in a form that changes something.
    pub(crate) fn in_form(&self) -> Shown<'_> {
        Shown { field: self, marks_optional: true }
    }

    /// The field among filters, which are all optional.
    pub(crate) fn among_filters(&self) -> Shown<'_> {
        Shown { field: self, marks_optional: false }
    }

    /// The ids of what describes it, for `aria-describedby`.
    pub(crate) fn described_by(&self) -> String {
        let hint = (!self.hint.is_empty()).then(|| format!("f-{}-hint", self.name));
        let problem = self.problem.is_some().then(|| format!("f-{}-problem", self.name));
        problem.into_iter().chain(hint).collect::<Vec<_>>().join(" ")
    }
}

/// Puts what was written into the fields, and a mistake beside its field.
pub(crate) fn fill(fields: &mut [Field], written: &[(String, String)], mistake: Option<&Mistake>) {
    for field in fields {
        if let Some((_, value)) = written.iter().find(|(name, _)| name == field.name) {
            field.value.clone_from(value);
        }
        let own = mistake.filter(|mistake| mistake.field == Some(field.name));
        field.problem = own.map(|mistake| mistake.text.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_holds_what_was_written_and_its_own_mistake() {
        let mut fields = [Field::line("cron", "Cron expression", "Such as 0 2 * * *."), Field::reason()];
        let written = [("cron".to_owned(), "every hour".to_owned()), ("x".to_owned(), String::new())];
        fill(&mut fields, &written, Some(&Mistake::of("cron", "it has 2 fields")));
        assert_eq!((&*fields[0].value, fields[0].problem.as_deref()), ("every hour", Some("It has 2 fields.")));
        assert_eq!(fields[0].described_by(), "f-cron-problem f-cron-hint");
        assert_eq!((&*fields[1].value, &fields[1].problem), ("", &None));
        assert_eq!(fields[1].described_by(), "f-reason-hint");
    }
}
