//! The overview: how much waits and since when, what was done, and who works.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use diesel_jobs_core::history::KindRate;
use diesel_jobs_core::storage::{Operator, QueueOverview, ScheduleRecord, Severity};
use diesel_jobs_core::{DeadLetters, JobId, JobState};

use super::failures::{self, Group};
use super::ranges::{Range, Tab, charts};
use super::{Visit, render};
use crate::changes::{self, Change};
use crate::chart::Chart;
use crate::doctor_report::DoctorReport;
use crate::failure::{Failure, Page};
use crate::format;
use crate::reason::{Told, told};
use crate::rights::Action;
use crate::sample::Sample;
use crate::shell::{Place, Shell};

const HOUR: Duration = Duration::from_secs(3600);
/// If the newest examination is older than this, the overview starts another one in the background.
const EXAMINED_EVERY: Duration = Duration::from_secs(300);
/// This many findings of the doctor are on the overview.
const FINDINGS: usize = 3;
/// At most this many queues that no worker serves are named, schedules whose job was discarded, and so on.
const NAMED: usize = 5;
/// At most this many settings of operators are listed.
const CHANGES: usize = 8;
/// Jobs that wait for longer than this are named, and why they do,
const LONG_WAIT: f64 = 60.0;
/// for this many queues.
const WAITS: usize = 3;
/// A kind is named if a larger share of its attempts has failed in the last hour,
const FAILED_SHARE: f64 = 0.1;
/// and if there were this many.
const FEWEST_ATTEMPTS: u64 = 10;

/// The due job of a queue that has waited longest.
struct Wait {
    queue: QueueOverview,
    job: JobId,
    seconds: f64,
    why: Told,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
    sample: Sample,
    dead: DeadLetters,
    doctor_report: Option<DoctorReport>,
    ranges: Vec<Tab>,
    charts: Vec<Chart>,
    /// The queues whose jobs wait for long, unless the page says so anyway.
    waits: Vec<Wait>,
    failing: Vec<Group>,
    others_failing: usize,
    /// The kinds of which many attempts fail, with the share of these.
    failing_kinds: Vec<(String, String)>,
    /// What operators have set.
    changes: Vec<Change>,
    /// The schedules whose newest job was discarded.
    /// With the job.
    discarded_schedules: Vec<(String, JobId)>,
}

/// The kinds of which many attempts have failed, those with the largest share first.
fn failing_kinds(rates: &[KindRate]) -> Vec<(String, String)> {
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for rate in rates {
        let (failed, all) = kinds.entry(&rate.kind).or_default();
        *failed += rate.work.retried + rate.work.discarded;
        *all += rate.work.retried + rate.work.discarded + rate.work.completed;
    }
    #[expect(clippy::cast_precision_loss, reason = "a share is shown with two digits")]
    let mut shares: Vec<(&str, f64)> = kinds
        .into_iter()
        .filter(|(_, (_, all))| *all >= FEWEST_ATTEMPTS)
        .map(|(kind, (failed, all))| (kind, failed as f64 / all as f64))
        .filter(|(_, share)| *share > FAILED_SHARE)
        .collect();
    shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    shares.into_iter().map(|(kind, share)| (kind.to_owned(), format!("{:.0} %", share * 100.0))).collect()
}

/// Why the oldest jobs of queues wait for long. Paused queues and those that nobody serves are on the page anyway.
async fn waits(operator: &dyn Operator, shell: &Shell, sample: &Sample) -> Vec<Wait> {
    let mut waits = Vec::new();
    let (queues, _) = sample.longest();
    let served = queues.into_iter().filter(|queue| queue.paused.is_none() && queue.workers > 0);
    for queue in served.take(WAITS) {
        let (Some(job), Some(seconds)) = (queue.jobs.oldest, queue.jobs.oldest_wait_seconds) else { break };
        if seconds < LONG_WAIT {
            break;
        }
        // The overview must not fail because of one job.
        let Ok(mut why) = operator.why(job).await else { continue };
        why.reasons.truncate(1);
        // It may have been claimed meanwhile.
        if let Some(why) = told(shell, &why).pop().filter(|_| why.state == Some(JobState::Available)) {
            waits.push(Wait { queue: queue.clone(), job, seconds, why });
        }
    }
    waits
}

pub(crate) async fn overview(visit: Visit) -> Page {
    let pairs = visit.pairs();
    if pairs.iter().any(|(name, _)| name != "range") {
        return Err(Failure::Malformed("Write ?range=1h, ?range=24h or ?range=7d.".to_owned()));
    }
    let range = Range::read(&pairs)?;
    visit.site.doctor_reports.begin(visit.site.shared_operator(), EXAMINED_EVERY);
    let mut shell = visit.shell(Place::Overview, "Overview").await?.live("/", &visit.query);
    let operator = visit.site.operator();
    let (stats, workers, dead) = (operator.stats().await?, operator.workers().await?, operator.dead_letters().await?);
    let settings = operator.queues().await?;
    let points = visit.site.charts.points(visit.site.shared_operator(), range.range, range.step).await?;
    let schedules = changes::schedules(&visit.site).await?;
    let of_operators = (settings.as_slice(), &*operator.kinds().await?, &*operator.limit_settings().await?);
    let changes = changes::changes(&shell.base, of_operators, &workers, &schedules);
    let discarded = |schedule: &ScheduleRecord| {
        let run = schedule.last_run.filter(|run| run.state == Some(JobState::Discarded))?;
        Some((schedule.name.clone(), run.job))
    };
    let discarded_schedules = schedules.iter().filter_map(discarded).collect();
    let failing_kinds = failing_kinds(&operator.outcomes(HOUR).await?);
    let sample = Sample::new(stats, settings, &workers);
    visit.site.remember(&sample);
    let waits = waits(operator, &shell, &sample).await;
    let ranges = range.tabs(|name| shell.one("/", "range", name));
    let (doctor_report, _) = visit.site.doctor_reports.last();
    let (failing, others_failing) = failures::newest(&visit.site, &shell, &[]).await?;
    let charts = charts(&points, range.step);
    shell.alert = match (sample.alive, failing.len() + others_failing) {
        (0, _) => "no worker".to_owned(),
        (_, 0) => String::new(),
        (_, groups) => format!("{groups} failing"),
    };
    render(&OverviewPage {
        shell,
        sample,
        dead,
        doctor_report,
        ranges,
        charts,
        waits,
        failing,
        others_failing,
        failing_kinds,
        changes,
        discarded_schedules,
    })
}
