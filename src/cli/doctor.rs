//! `doctor`: prints what keeps jobs from running or harms the database, and what repairs it.

mod program;

use diesel_jobs_core::storage::{Finding, Objectives, Program, Severity};
use serde::Serialize;

use self::program::Facts;
use super::app::App;
use super::command_args::DoctorArgs;
use super::exit::{CliError, Exit};
use super::output::{self, count, printable};
use super::{database, settings, unknown_variables, worker};

#[derive(Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Finding>,
}

pub(super) async fn doctor(app: App<'_>, args: &DoctorArgs) -> Result<Exit, CliError> {
    if args.run.until_empty {
        return Err(CliError::usage("`doctor` runs no jobs; leave --until-empty out, or write it after `run`"));
    }
    let settings = settings::run(&args.run, app.env)?;
    if let Some(what) = database::missing_file(app.url()?) {
        print(app.json, vec![Finding::error("schema", what, "worker migrate".to_owned())])?;
        return Ok(Exit::Schema);
    }
    let database = worker::open(app.chosen()?, &settings).await?;
    if let Some(finding) = database.operator.examine_connection().await? {
        print(app.json, vec![finding])?;
        return Ok(Exit::Failed);
    }

    // The program's set-up may need the tables, so they come first.
    let mut findings = Vec::new();
    let installation = database.storage.check_schema().await;
    let mut program = None;
    if let Ok(installation) = &installation {
        let worker = worker::build(database.storage.clone(), app.setup, &settings, None).await;
        let facts = worker.as_ref().map_or_else(|_| Facts::of_linked(&settings), Facts::of_worker);
        findings.extend(worker.err().map(|error| program::would_not_start(&error)));
        findings.extend(program::environment(&facts, installation));
        findings.extend(program::unknown_queues(&facts, &database.operator.stats().await?.queues));
        if args.before_deploy {
            findings.extend(program::left_out(&facts));
        }
        findings.extend(program::schedules(&facts, &database.storage.schedules(&[]).await?.all));
        findings.extend(unknown_variables::of_this_process().into_iter().map(program::unknown_variable));
        let Facts { queues, kinds, .. } = facts;
        program = Some(Program { queues, kinds, replaces_workers: args.before_deploy, ..Program::default() });
    }
    let objectives = Objectives { oldest_due: args.objective, transaction: args.transaction };
    findings.extend(database.operator.examine(objectives, program.as_ref()).await?);
    findings.sort_by_key(|finding| finding.severity);

    let ok = print(app.json, findings)?;
    Ok(match installation {
        Err(error) if !ok => Exit::from(&error),
        _ if ok => Exit::Fine,
        _ => Exit::Failed,
    })
}

/// Prints the report. Returns whether it contains no error.
fn print(json: bool, findings: Vec<Finding>) -> Result<bool, CliError> {
    let report = Report { ok: number(&findings, Severity::Error) == 0, findings };
    output::print(json, &report, || human(&report.findings))?;
    Ok(report.ok)
}

fn number(findings: &[Finding], severity: Severity) -> i64 {
    let found = findings.iter().filter(|finding| finding.severity == severity).count();
    i64::try_from(found).unwrap_or(i64::MAX)
}

fn human(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "no problems\n".to_owned();
    }
    let mut text = String::new();
    for Finding { check, severity, what, repair } in findings {
        text.push_str(&format!("{}[{check}]: {}\n", severity.as_str(), printable(what)));
        let mut lines = repair.lines();
        text.push_str(&format!("  repair: {}\n", printable(lines.next().unwrap_or_default())));
        lines.for_each(|line| text.push_str(&format!("          {}\n", printable(line))));
    }
    let number = |severity| number(findings, severity);
    text.push_str(&format!(
        "{} and {}",
        count(number(Severity::Error), "error"),
        count(number(Severity::Warning), "warning")
    ));
    if number(Severity::Skipped) > 0 {
        text.push_str(&format!("; {} could not be made", count(number(Severity::Skipped), "check")));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_has_its_check_its_repair_and_is_counted() {
        let findings = [
            Finding::error("unserved_queue", "2 jobs wait", "worker run"),
            Finding::warning("set_apart", "1 row", "to see it: a\nto drop it: b"),
            Finding::skipped("rights", "denied\n", "as the owner"),
        ];
        assert_eq!(
            human(&findings),
            "error[unserved_queue]: 2 jobs wait\n  repair: worker run\n\
             warning[set_apart]: 1 row\n  repair: to see it: a\n          to drop it: b\n\
             skipped[rights]: denied\\n\n  repair: as the owner\n\
             1 error and 1 warning; 1 check could not be made\n"
        );
        assert_eq!(human(&[]), "no problems\n");
    }
}
