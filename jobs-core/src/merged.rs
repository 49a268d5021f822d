//! Jobs of one bulk that have the same unique key.

use std::collections::BTreeMap;

use crate::enqueued::Enqueued;
use crate::new_job::{InvalidJob, NewJob};
use crate::unique::{OnConflict, UniqueProblem};

/// The jobs of a bulk, each key once, and what becomes of the others.
#[derive(Debug)]
#[doc(hidden)]
pub struct Merged {
    /// Jobs without a key first, then in the order of the keys. Two bulks that take their keys in the same order cannot deadlock.
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
                Some(OnConflict::Replace(_) | OnConflict::Debounce { .. }) if !answer.is_existing() => {
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
pub fn merged(jobs: Vec<NewJob>) -> Result<Merged, InvalidJob> {
    let mut first: BTreeMap<(String, String), usize> = BTreeMap::new();
    let (mut kept, mut targets): (Vec<NewJob>, Vec<(usize, bool)>) = (Vec::new(), Vec::new());
    for job in jobs {
        let Some(unique) = &job.unique else {
            targets.push((kept.len(), true));
            kept.push(job);
            continue;
        };
        let key = (unique.name.clone(), unique.key.clone());
        let Some(&place) = first.get(&key) else {
            first.insert(key, kept.len());
            targets.push((kept.len(), true));
            kept.push(job);
            continue;
        };
        let kind = || job.kind.to_string();
        let other = &mut kept[place];
        match unique.rule.on_conflict {
            OnConflict::Keep => {}
            OnConflict::Error => {
                return Err(InvalidJob::Unique { kind: kind(), problem: UniqueProblem::Twice(key.1) });
            }
            OnConflict::Debounce { .. } => other.args = job.args,
            OnConflict::Replace(replace) => {
                if replace.args {
                    other.args = job.args;
                }
                if replace.run_at {
                    other.run_at = job.run_at;
                }
                if replace.priority {
                    other.priority = job.priority;
                }
            }
        }
        targets.push((place, false));
    }
    let mut order: Vec<usize> = (0..kept.len()).collect();
    let key = |place: &usize| kept[*place].unique.as_ref().map(|unique| (&unique.name, &unique.key));
    order.sort_by(|one, other| key(one).cmp(&key(other)));
    let mut now_at = vec![0; order.len()];
    for (new, old) in order.iter().enumerate() {
        now_at[*old] = new;
    }
    let mut sorted: Vec<(usize, NewJob)> = kept.into_iter().enumerate().map(|(old, job)| (now_at[old], job)).collect();
    sorted.sort_unstable_by_key(|(place, _)| *place);
    let places = targets.into_iter().map(|(place, is_first)| (now_at[place], is_first)).collect();
    Ok(Merged { jobs: sorted.into_iter().map(|(_, job)| job).collect(), places })
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
