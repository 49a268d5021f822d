//! Jobs of one bulk that have the same unique key.

use crate::enqueued::Enqueued;
use crate::new_job::{InvalidJob, NewJob};
use crate::unique::{OnConflict, UniqueProblem};

/// The jobs of a bulk, each key once, and what happens to the others.
#[derive(Debug)]
#[doc(hidden)]
pub struct Merged {
    /// Jobs without a key first, then in the order of the keys. Two bulks that take their keys in the same order cannot
    /// deadlock.
    pub jobs: Vec<NewJob>,
    /// For each given job: its place in `jobs`, and whether it was the first one with its key.
    places: Vec<(usize, bool)>,
}

impl Merged {
    /// The answers for all given jobs, from those for `jobs`.
    pub fn answers(&self, enqueued: &[Enqueued]) -> Vec<Enqueued> {
        let of = |&(place, is_first): &(usize, bool)| {
            let answer = *enqueued.get(place)?;
            let rule = self.jobs.get(place)?.unique.as_ref().map(|unique| unique.rule.on_conflict);
            Some(match rule {
                _ if is_first => answer,
                Some(OnConflict::Replace(_) | OnConflict::Debounce { .. } | OnConflict::RunAgain)
                    if !answer.is_existing() =>
                {
                    Enqueued::replaced(answer.id())
                }
                _ => Enqueued::existing(answer.id()),
            })
        };
        self.places.iter().filter_map(of).collect()
    }
}

/// Merges jobs of one bulk that have the same unique key, as if they were enqueued one after the other.
#[doc(hidden)]
pub fn merged(given: Vec<NewJob>) -> Result<Merged, InvalidJob> {
    let mut order: Vec<usize> = (0..given.len()).collect();
    // A stable sort: jobs with the same key stay in their order.
    order.sort_by(|one, other| key(&given[*one]).cmp(&key(&given[*other])));
    let mut places = vec![(0, true); given.len()];
    let mut given: Vec<Option<NewJob>> = given.into_iter().map(Some).collect();
    let mut jobs: Vec<NewJob> = Vec::with_capacity(given.len());
    for number in order {
        let Some(job) = given[number].take() else { continue };
        match jobs.last_mut().filter(|first| job.unique.is_some() && key(first) == key(&job)) {
            Some(first) => {
                merge(first, job)?;
                places[number] = (jobs.len() - 1, false);
            }
            None => {
                places[number] = (jobs.len(), true);
                jobs.push(job);
            }
        }
    }
    Ok(Merged { jobs, places })
}

fn key(job: &NewJob) -> Option<(&str, &str)> {
    job.unique.as_deref().map(|unique| (&*unique.name, &*unique.key))
}

/// What the first job becomes if the other one is enqueued after it.
fn merge(first: &mut NewJob, other: NewJob) -> Result<(), InvalidJob> {
    let Some(unique) = &other.unique else { return Ok(()) };
    match unique.rule.on_conflict {
        OnConflict::Keep => {}
        OnConflict::Error => {
            let problem = UniqueProblem::Twice(unique.key.clone());
            return Err(InvalidJob::Unique { kind: other.kind.into_owned(), problem });
        }
        OnConflict::Debounce { .. } | OnConflict::RunAgain => first.args = other.args,
        OnConflict::Replace(replace) => {
            if replace.args {
                first.args = other.args;
            }
            if replace.run_at {
                first.run_at = other.run_at;
            }
            if replace.priority {
                first.priority = other.priority;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobId, Replace, Unique};

    fn of(user: &str, note: u8, on_conflict: OnConflict) -> NewJob {
        let rule = Unique::new().by(&["user"]).on_conflict(on_conflict);
        NewJob::raw("a", format!(r#"{{"user":"{user}","note":{note}}}"#)).unique(rule).unwrap()
    }

    #[test]
    fn each_key_is_there_once_in_the_order_of_the_keys() {
        let replace = OnConflict::Replace(Replace::new().args());
        let jobs = vec![
            of("z", 0, OnConflict::Keep),
            NewJob::raw("plain", "{}"),
            of("b", 2, replace),
            of("z", 3, OnConflict::Keep),
            of("b", 4, replace),
        ];
        let merged = merged(jobs).unwrap();
        let args: Vec<&str> = merged.jobs.iter().map(|job| &*job.args).collect();
        assert_eq!(args, ["{}", r#"{"user":"b","note":4}"#, r#"{"user":"z","note":0}"#]);
        let [plain, b, z] = [1, 2, 3].map(JobId);
        let new = Enqueued::new;
        let answers = merged.answers(&[new(plain), new(b), new(z)]);
        assert_eq!(answers, [new(z), new(plain), new(b), Enqueued::existing(z), Enqueued::replaced(b)]);
        // A running job is not replaced.
        let answers = merged.answers(&[new(plain), Enqueued::existing(b), Enqueued::existing(z)]);
        assert_eq!((answers[2], answers[4]), (Enqueued::existing(b), Enqueued::existing(b)));
    }

    #[test]
    fn two_jobs_that_call_it_an_error_are_refused() {
        let refused = merged(vec![of("x", 0, OnConflict::Error), of("x", 1, OnConflict::Error)]).unwrap_err();
        assert_eq!(refused.to_string(), r#"job `a`: two of the jobs have the unique key ["x"]"#);
    }
}
