//! Which jobs a page shows: read from the address, and written into it.
//!
//! The fields of the form are single conditions. `q` has any conditions in their textual form, which the command line
//! shares.

use diesel_jobs_core::shell::in_quotation_marks;
use diesel_jobs_core::storage::{CONDITIONS, JobFilter, MAX_PAGE, Paging};
use diesel_jobs_core::{JobId, JobState, UnknownState};

use crate::failure::Failure;
use crate::field::{Field, Input, Mistake};
use crate::known::Known;
use crate::link::encode;

/// How many jobs are on a page, unless the address has another number.
const PAGE: usize = 50;

/// The filters of the list of jobs, as they are in the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) state: Option<JobState>,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) tag: String,
    pub(crate) error: String,
    pub(crate) q: String,
    limit: Option<usize>,
    before: Option<JobId>,
    after: Option<JobId>,
}

const OWN: [&str; 9] = ["state", "kind", "queue", "tag", "error", "q", "limit", "before", "after"];

/// The id in an address.
pub(crate) fn read_id(text: &str) -> Result<JobId, Failure> {
    let id =
        text.parse().map_err(|_| Failure::NotFound(format!("{text:?} is not the id of a job: ids are numbers.")))?;
    Ok(JobId(id))
}

fn id(name: &'static str, value: &str) -> Result<Option<JobId>, Mistake> {
    let read = |_| Mistake::of(name, &format!("{value:?} is not the id of a job: ids are numbers"));
    Ok(Some(JobId(value.parse().map_err(read)?)))
}

/// The address may have a condition without a field of its own as a filter, such as `priority=5`. It is put to the
/// others in the field of the conditions, which shows it, and what may be wrong with it.
pub(crate) fn with_conditions(pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    let is_known = |name: &str| name.starts_with("args.") || CONDITIONS.iter().any(|condition| condition.name == name);
    let (conditions, mut pairs): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(name, _)| !OWN.contains(&name.as_str()) && is_known(name));
    let written = |(name, value): (String, String)| match value.contains(char::is_whitespace) {
        true => format!("{name}:{}", in_quotation_marks(&value)),
        false => format!("{name}:{value}"),
    };
    let conditions: Vec<String> = conditions.into_iter().filter(|(_, value)| !value.is_empty()).map(written).collect();
    if conditions.is_empty() {
        return pairs;
    }
    let at = pairs.iter().position(|(name, _)| name == "q");
    let q = at.map(|at| pairs.remove(at).1).filter(|q| !q.is_empty());
    pairs.push(("q".to_owned(), q.into_iter().chain(conditions).collect::<Vec<_>>().join(" ")));
    pairs
}

/// The fields of the form.
pub(crate) fn fields(known: &Known) -> Vec<Field> {
    let field = |name, label| Field::line(name, label, "").optional();
    vec![
        field("kind", "Kind").suggesting(&known.kinds),
        field("queue", "Queue").suggesting(&known.queues),
        field("tag", "Tag"),
        field("error", "Error contains"),
        Field::line("q", "Conditions", "Such as priority:5 args.user.id:7").optional().filled_by(Input::Words),
    ]
}

/// Refuses a condition with a value that no database can search for. The condition has its own field, which shows the
/// mistake.
fn check(field: &'static str, filter: &JobFilter) -> Result<(), Mistake> {
    filter.validate().map_err(|problem| Mistake::of(field, &problem))
}

impl Filter {
    /// Reads the filters. Refuses what it does not know, so that a mistyped filter does not show, or change, all jobs.
    /// What is wrong in a field is a mistake of the form.
    pub(crate) fn read(pairs: &[(String, String)]) -> Result<Self, Failure> {
        let mut filter = Self::default();
        for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
            match name.as_str() {
                "state" => {
                    let wrong = |problem: UnknownState| Mistake::of("state", &problem.to_string());
                    filter.state = Some(value.parse().map_err(wrong)?);
                }
                "kind" => filter.kind.clone_from(value),
                "queue" => filter.queue.clone_from(value),
                "tag" => filter.tag.clone_from(value),
                "error" => filter.error.clone_from(value),
                "q" => filter.q.clone_from(value),
                "before" => filter.before = id("before", value)?,
                "after" => filter.after = id("after", value)?,
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
                    let wrong = || Mistake::of("limit", &format!("limit: write a number from 1 to {MAX_PAGE}"));
                    filter.limit = Some(limit.ok_or_else(wrong)?);
                }
                other => {
                    let text = format!("There is no filter {other:?}. The filters are: {}", OWN.join(", "));
                    return Err(Mistake::of_form(&text).into());
                }
            }
        }
        filter.to_storage().map(|_| filter)
    }

    /// The pairs of the address, without the place in the list.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let state = self.state.map(|state| state.to_string()).unwrap_or_default();
        let limit = self.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let pairs = [
            ("state", state),
            ("kind", self.kind.clone()),
            ("queue", self.queue.clone()),
            ("tag", self.tag.clone()),
            ("error", self.error.clone()),
            ("q", self.q.clone()),
            ("limit", limit),
        ];
        pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The query of the address.
    pub(crate) fn query(&self) -> String {
        encode(self.pairs().iter().map(|(name, value)| (*name, value.as_str())))
    }

    /// The query of another page of the list.
    pub(crate) fn query_of(&self, name: &str, id: JobId) -> String {
        let place = id.to_string();
        encode(self.pairs().iter().map(|(name, value)| (*name, value.as_str())).chain([(name, place.as_str())]))
    }

    /// The same with this state, in place of those that the conditions name.
    pub(crate) fn with_state(&self, state: Option<JobState>) -> Self {
        let q = match self.q.parse::<JobFilter>() {
            Ok(filter) if !filter.states.is_empty() => JobFilter { states: Vec::new(), ..filter }.to_string(),
            _ => self.q.clone(),
        };
        Self { state, q, ..self.clone() }
    }

    /// Whether this is not the first page of the list.
    pub(crate) fn is_within(&self) -> bool {
        self.before.is_some() || self.after.is_some()
    }

    pub(crate) fn paging(&self) -> Paging {
        Paging { before: self.before, after: self.after, limit: self.limit.unwrap_or(PAGE) }
    }

    /// What the storage is asked for.
    pub(crate) fn to_storage(&self) -> Result<JobFilter, Failure> {
        // The text names the condition that is wrong.
        let wrong = |problem: String| Mistake::of("q", &problem);
        let mut filter: JobFilter = self.q.parse().map_err(wrong)?;
        if let Some(state) = self.state {
            filter.states = vec![state];
        }
        check("kind", &JobFilter::of_kind(self.kind.as_str()))?;
        check("queue", &JobFilter::of_queue(self.queue.as_str()))?;
        check("tag", &JobFilter { tags: vec![self.tag.clone()], ..JobFilter::default() })?;
        check("error", &JobFilter { error: Some(self.error.clone()), ..JobFilter::default() })?;
        for (value, into) in
            [(&self.kind, &mut filter.kinds), (&self.queue, &mut filter.queues), (&self.tag, &mut filter.tags)]
        {
            if !value.is_empty() {
                into.push(value.clone());
            }
        }
        if !self.error.is_empty() {
            if filter.error.is_some() {
                return Err(Mistake::of("error", "The conditions have error:, too. Write one of the two").into());
            }
            filter.error = Some(self.error.clone());
        }
        filter.validate().map_err(|problem| Mistake::of_form(&problem))?;
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &str) -> Vec<(String, String)> {
        crate::link::decode(query)
    }

    #[test]
    fn what_is_read_is_written() {
        let query = "state=running&kind=a%26b&queue=q&tag=t&error=no+figures&q=args.user%3A7&limit=10";
        let filter = Filter::read(&pairs(query)).unwrap();
        assert_eq!(filter.query(), query);
        assert_eq!(filter.query_of("before", JobId(9)), format!("{query}&before=9"));
        let stored = filter.to_storage().unwrap();
        assert_eq!((stored.kinds, stored.args.len()), (vec!["a&b".to_owned()], 1));
    }

    #[test]
    fn a_condition_without_a_field_stands_among_the_conditions() {
        for (query, q) in [
            ("priority=5", "priority:5"),
            ("q=tag%3Avip&priority=5&id=7,8", "tag:vip priority:5 id:7,8"),
            ("args.name=a+b&q=&finished_after=", "args.name:\"a b\""),
            ("worker=x&state=running", "worker:x"),
        ] {
            let read = with_conditions(pairs(query));
            let found: Vec<&str> = read.iter().filter(|(name, _)| name == "q").map(|(_, q)| q.as_str()).collect();
            assert_eq!(found, [q], "{query}");
        }
        for query in ["kind=a&stat=x", "q=tag%3Avip&priority="] {
            let unknown = with_conditions(pairs(query));
            assert!(unknown.iter().all(|(name, _)| name != "priority"), "{query}: {unknown:?}");
        }
        assert!(Filter::read(&with_conditions(pairs("priority=5&kind=a"))).is_ok());
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_field() {
        for (wrong, field, text) in [
            ("state=gone", "state", "available"),
            ("before=x", "before", "\"x\" is not the id of a job"),
            ("limit=0", "limit", "from 1 to 1000"),
            ("limit=1001", "limit", "from 1 to 1000"),
            ("q=colour%3Ared", "q", "\"colour\" is not a condition"),
            ("q=priority%3Ahigh", "q", "priority: \"high\" is not"),
            ("kind=%00", "kind", "NUL"),
            ("error=x&q=error%3Ay", "error", "Write one of the two"),
        ] {
            let Err(Failure::Mistake(mistake)) = Filter::read(&pairs(wrong)) else { panic!("{wrong}") };
            assert_eq!(mistake.field, Some(field), "{wrong}");
            assert!(mistake.text.contains(text) && !mistake.text.contains("q:"), "{wrong}: {}", mistake.text);
        }
        let Err(Failure::Mistake(Mistake { field: None, text })) = Filter::read(&pairs("stat=x")) else { panic!() };
        assert_eq!(
            text,
            "There is no filter \"stat\". The filters are: state, kind, queue, tag, error, q, limit, before, after."
        );
    }
}
