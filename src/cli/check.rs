//! `check`: finds problems that prevent jobs from running, and prints their solutions.

mod examine;
mod finding;

use diesel_jobs_core::StorageError;
use serde::Serialize;

use self::examine::{Facts, examine, set_apart};
use self::finding::Finding;
use super::app::App;
use super::exit::{CliError, Exit};
use super::pauses::{self, Paused};
use super::run_args::RunArgs;
use super::{database, output, settings, worker};

#[derive(Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Finding>,
}

pub(super) async fn check(app: App<'_>, args: &RunArgs) -> Result<Exit, CliError> {
    let settings = settings::run(args, app.env)?;
    let url = app.url()?.to_owned();
    let App { json, setup, .. } = app;
    let database = database::open(&url, worker::handlers(&settings)).await?;

    let mut findings = Vec::new();
    let mut exit = Exit::Failed;
    // An unreachable database ends the command: nothing below could be checked.
    let schema = match database.storage.check_schema().await {
        Err(error @ StorageError::Unavailable(_)) => return Err(error.into()),
        answer => answer,
    };
    let worker = worker::build(database.storage.clone(), setup, &settings, None).await;
    let environment =
        worker.as_ref().map_or(settings.environment.clone(), |worker| worker.environment().map(str::to_owned));
    let facts = match &worker {
        Ok(worker) => Facts::of_worker(worker),
        Err(error) => {
            findings.push(Finding::error(
                "worker",
                error.to_string(),
                "the worker would not start; correct this first",
            ));
            Facts::of_linked()
        }
    };
    match schema {
        Ok(installation) => {
            let stats = database.operator.stats().await?;
            let workers = database.operator.workers().await?;
            let schedules = database.storage.schedules(&[]).await?.all;
            findings.extend(examine::installation(&installation, environment.as_deref()));
            findings.extend(examine(&facts, &stats, &workers, &schedules));
            findings.extend(pauses::all(&*database.operator).await?.iter().map(paused));
            findings.extend(set_apart(&database.operator.dead_letters().await?));
        }
        Err(error) => {
            exit = Exit::from(&error);
            let help = "run `migrate` if the schema is missing or older, deploy a newer program if it is newer";
            findings.push(Finding::error("schema", error.to_string(), help));
        }
    }

    let report = Report { ok: !findings.iter().any(Finding::is_error), findings };
    output::print(json, &report, || human(&report))?;
    Ok(if report.ok { Exit::Fine } else { exit })
}

fn paused(paused: &Paused) -> Finding {
    let help = "its jobs are not claimed; resume it when the reason is gone";
    Finding::warning(paused.code(), paused.text(), help)
}

fn human(report: &Report) -> String {
    let mut text: String = report.findings.iter().map(Finding::text).collect();
    let errors = report.findings.iter().filter(|finding| finding.is_error()).count();
    let warnings = report.findings.len() - errors;
    text.push_str(&match (errors, warnings) {
        (0, 0) => "no problems\n".to_owned(),
        _ => format!("{} and {}\n", output::count(errors as i64, "error"), output::count(warnings as i64, "warning")),
    });
    text
}
