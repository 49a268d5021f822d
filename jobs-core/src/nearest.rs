//! Finds the name that a misspelt name probably stands for. The macros use this file too
//! (`jobs-macros/src/nearest.rs` links here).

/// Returns the candidate nearest to `written`. `None` if the distance is more than a third of the candidate's letters.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&written, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count() / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns how many letters must be added, removed, replaced or swapped with their neighbour. Computed row by row.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut above = vec![0; to.len() + 1];
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for i in 0..from.len() {
        let mut next = vec![i + 1];
        for j in 0..to.len() {
            let replaced = row[j] + usize::from(from[i] != to[j]);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j] {
                least = least.min(above[j - 1] + 1);
            }
            next.push(least);
        }
        above = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_finds_its_word_and_another_word_none() {
        let options = ["queue", "priority", "timeout", "kind"];
        for (written, meant) in [("quue", "queue"), ("Priority", "priority"), ("time_out", "timeout"), ("knid", "kind")]
        {
            assert_eq!(nearest(written, options), Some(meant));
        }
        for written in ["color", "retries", "x", ""] {
            assert_eq!(nearest(written, options), None, "{written:?}");
        }
    }
}
