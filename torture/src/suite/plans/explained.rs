//! What `auto_explain` logs about statements, read from the server's log. The functions are pure.

/// One executed statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Explained {
    pub(super) query: String,
    /// The plan as logged.
    pub(super) plan: String,
    /// The number of rows that its first node returned.
    pub(super) rows: u64,
    /// The number of pages that it touched, in memory or not.
    pub(super) pages: u64,
}

impl Explained {
    /// Returns the plan's first step that reads one of the large tables completely, or that sorts.
    pub(super) fn bad_step(&self) -> Option<&str> {
        let steps = self.plan.lines().map(|line| line.trim_start().trim_start_matches("->").trim_start());
        let scans = ["ready", "running", "finished"].map(|table| format!("Seq Scan on {table} "));
        let is_bad =
            |step: &&str| step.starts_with("Sort  (") || scans.iter().any(|scan| step.starts_with(scan.as_str()));
        steps.filter(is_bad).find_map(|step| step.split("  (").next())
    }

    /// Reads one statement from the lines that follow `plan:`.
    fn read(lines: &[&str]) -> Option<Self> {
        // The plan begins at the first line with costs.
        let begins = lines.iter().position(|line| line.contains("(cost=") && line.contains("(actual "))?;
        let first = lines[begins];
        let rows = after(first.split_once("(actual ")?.1, "rows=")?;
        let buffers = lines[begins..].iter().find(|line| line.trim_start().starts_with("Buffers: shared"));
        let pages = buffers
            .map_or(0, |line| after(line, "hit=").unwrap_or_default() + after(line, "read=").unwrap_or_default());
        let query = lines[..begins].join("\n").trim_start().trim_start_matches("Query Text: ").to_owned();
        Some(Self { query: format!("{query}\n"), plan: lines[begins..].join("\n"), rows, pages })
    }
}

fn after(text: &str, word: &str) -> Option<u64> {
    text.split_once(word)?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Returns all statements of this database's sessions.
pub(super) fn plans(log: &str, database: &str) -> Vec<Explained> {
    let lines: Vec<&str> = log.lines().collect();
    let mut plans = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if line.starts_with('\t') || !line.contains(&format!("] {database} ")) || !line.ends_with("plan:") {
            continue;
        }
        let end = at + lines[at..].iter().take_while(|line| line.starts_with('\t')).count();
        plans.extend(Explained::read(&lines[at..end]));
        at = end;
    }
    plans
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-01 00:00:00.000 UTC [7] mine worker LOG:  duration: 0.2 ms  plan:
\tQuery Text: with claimed as (
\t    delete from jobs.ready
\t)
\tInsert on running  (cost=1.00..2.00 rows=9 width=1) (actual rows=3 loops=1)
\t  Buffers: shared hit=40 read=2 dirtied=5
\t  CTE claimed
\t    ->  Sort  (cost=0.00..1.00 rows=1 width=1) (actual rows=3 loops=1)
\t          Buffers: shared hit=9
2026-01-01 00:00:00.000 UTC [8] other worker LOG:  duration: 0.2 ms  plan:
\tQuery Text: select 1
\tResult  (cost=0.00..0.01 rows=1 width=4) (actual rows=1 loops=1)
2026-01-01 00:00:00.000 UTC [7] mine worker LOG:  duration: 0.2 ms  plan:
\tQuery Text: select 2
\tSeq Scan on job_error  (cost=0.00..0.01 rows=1 width=4) (actual rows=1 loops=1)
";

    #[test]
    fn plans_are_read_with_what_they_took() {
        let plans = plans(LOG, "mine");
        assert_eq!(
            plans.iter().map(|plan| (plan.rows, plan.pages, plan.bad_step())).collect::<Vec<_>>(),
            [(3, 42, Some("Sort")), (1, 0, None)]
        );
        assert!(plans[0].query.starts_with("with claimed as (\n\t    delete"), "{:?}", plans[0].query);
    }
}
