//! `doctor`: prints what is wrong with the database, and the statements that repair it.

use diesel_jobs_core::storage::{Finding, Objectives, Severity};
use serde::Serialize;

use super::app::App;
use super::command_args::DoctorArgs;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, count, printable};

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    findings: &'a [Finding],
}

pub(super) async fn doctor(app: &App<'_>, args: DoctorArgs) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    let objectives = Objectives { oldest_due: args.objective, transaction: args.transaction };
    let findings = database.operator.examine(objectives).await?;
    let ok = !findings.iter().any(|finding| finding.severity == Severity::Error);
    output::print(app.json, &Report { ok, findings: &findings }, || human(&findings))?;
    let schema = findings.iter().any(|finding| finding.check == "schema");
    Ok(if schema {
        Exit::Schema
    } else if ok {
        Exit::Fine
    } else {
        Exit::Failed
    })
}

fn human(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "no problems\n".to_owned();
    }
    let mut text = String::new();
    for Finding { check, severity, what, repair } in findings {
        let severity = severity.as_str();
        text.push_str(&format!("{severity}: {check}: {}\n", printable(what)));
        let mut lines = repair.lines();
        text.push_str(&format!("  repair: {}\n", printable(lines.next().unwrap_or_default())));
        lines.for_each(|line| text.push_str(&format!("          {}\n", printable(line))));
    }
    let number = |severity| {
        let found = findings.iter().filter(|finding| finding.severity == severity).count();
        i64::try_from(found).unwrap_or(i64::MAX)
    };
    let (errors, warnings) = (count(number(Severity::Error), "error"), count(number(Severity::Warning), "warning"));
    text.push_str(&format!("{errors}, {warnings}, {}\n", count(number(Severity::Skipped), "skipped check")));
    text
}
