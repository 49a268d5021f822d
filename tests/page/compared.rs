//! What is compared of an output.

/// Commands with numbers that depend on the machine and on the order in which jobs end.
const MEASURED: [&str; 4] = ["worker stats", "worker failures", "worker why 30000", "worker show"];

/// The last word of a line of which the page shows only the beginning.
const CUT: &str = "..";

/// The text without what differs from run to run: times, ids of workers, durations, and how wide columns are.
fn normal(output: &str) -> Vec<Vec<String>> {
    output.lines().map(|line| line.split_whitespace().map(word).collect()).collect()
}

fn word(word: &str) -> String {
    let digits: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let is_time = digits.starts_with("0000-00-00") || digits.starts_with("00:00:00");
    let is_id = word.len() == 36 && word.chars().filter(|c| *c == '-').count() == 4;
    if is_time || is_id { "#".to_owned() } else { word.to_owned() }
}

fn is_measured(command: &str) -> bool {
    // `worker queues` is the list. Its sub-commands print no such numbers.
    command == "worker queues" || MEASURED.iter().any(|name| command.starts_with(name))
}

fn compared(command: &str, output: &str) -> Vec<Vec<String>> {
    let mut lines = normal(output);
    if !is_measured(command) {
        return lines;
    }
    if command == "worker stats" {
        // Rates are shown as soon as a minute is over.
        lines.truncate(lines.iter().position(Vec::is_empty).unwrap_or(lines.len()));
    }
    for line in &mut lines {
        line.retain(|word| !["ms", "s", "min", "h", "d"].contains(&word.as_str()));
        line.iter_mut()
            .filter(|word| word.contains(|c: char| c.is_ascii_digit()))
            .for_each(|word| "#".clone_into(word));
        line.dedup();
    }
    lines
}

/// Whether the page shows this real line.
fn is_same(shown: &[String], real: &[String]) -> bool {
    match shown.split_last() {
        Some((last, beginning)) if last == CUT => real.starts_with(beginning),
        _ => shown == real,
    }
}

/// Whether the page shows the real output of this command.
pub(super) fn are_same(command: &str, shown: &str, real: &str) -> bool {
    let (shown, real) = (compared(command, shown), compared(command, real));
    shown.len() == real.len() && shown.iter().zip(&real).all(|(shown, real)| is_same(shown, real))
}

/// The real output. Its lines are cut where the page cuts them.
pub(super) fn cut_as(shown: &str, real: &str) -> String {
    let mut shown = shown.lines();
    let lines = real.split_inclusive('\n').map(|line| match shown.next() {
        Some(cut) if cut.ends_with(" ..") && is_same(&normal(cut).concat(), &normal(line).concat()) => {
            let words: Vec<&str> = line.split_whitespace().take(cut.split_whitespace().count() - 1).collect();
            format!("{} {CUT}\n", words.join(" "))
        }
        _ => line.to_owned(),
    });
    lines.collect()
}
