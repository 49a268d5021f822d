//! The overview: how much waits and since when, what was done, and who works.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use chrono::TimeDelta;
use diesel_jobs_core::history::{KindRate, Point, Quantiles, Summary};
use diesel_jobs_core::storage::{ScheduleRecord, Severity};
use diesel_jobs_core::{DeadLetters, JobState};

use super::failures::{self, Group};
use super::{Visit, render};
use crate::changes::{self, Change};
use crate::chart::{Chart, Data, Form, Series, Unit};
use crate::doctor_report::DoctorReport;
use crate::failure::{Failure, Page};
use crate::format;
use crate::rights::Action;
use crate::sample::Sample;
use crate::shell::{Place, Shell};

/// A time that charts show: its name in the address and on the page, its length and the length of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    name: &'static str,
    range: Duration,
    step: Duration,
}

const HOUR: Duration = Duration::from_secs(3600);

const RANGES: [Range; 3] = [
    Range { name: "1h", range: Duration::from_secs(3600), step: Duration::from_secs(60) },
    Range { name: "24h", range: Duration::from_secs(24 * 3600), step: Duration::from_secs(15 * 60) },
    Range { name: "7d", range: Duration::from_secs(7 * 24 * 3600), step: Duration::from_secs(3600) },
];

/// If the newest examination is older than this, the overview starts another one in the background.
const EXAMINED_EVERY: Duration = Duration::from_secs(300);
/// This many findings of the doctor are on the overview.
const FINDINGS: usize = 3;
/// At most this many queues that no worker serves are named, schedules whose job was discarded, and so on.
const NAMED: usize = 5;
/// At most this many settings of operators are listed.
const CHANGES: usize = 8;
/// A kind is named if a larger share of its attempts has failed in the last hour,
const FAILED_SHARE: f64 = 0.1;
/// and if there were this many.
const FEWEST_ATTEMPTS: u64 = 10;

/// Reads the range of the address.
fn range(pairs: &[(String, String)]) -> Result<Range, Failure> {
    let mut range = RANGES[0];
    for (name, value) in pairs {
        let known = RANGES.into_iter().find(|range| range.name == value).filter(|_| name == "range");
        range = known.ok_or_else(|| Failure::Malformed("Write ?range=1h, ?range=24h or ?range=7d.".to_owned()))?;
    }
    Ok(range)
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
    sample: Sample,
    dead: DeadLetters,
    doctor_report: Option<DoctorReport>,
    ranges: Vec<(&'static str, String, bool)>,
    charts: Vec<Chart>,
    failing: Vec<Group>,
    others_failing: usize,
    /// The kinds of which many attempts fail, with the share of these.
    failing_kinds: Vec<(String, String)>,
    /// What operators have set.
    changes: Vec<Change>,
    /// The schedules whose newest job was discarded.
    discarded_schedules: Vec<String>,
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

/// The charts of what was done.
fn charts(points: &[Point], step: Duration) -> Vec<Chart> {
    let times: Vec<_> = points.iter().map(|point| point.at).collect();
    let step = TimeDelta::from_std(step).unwrap_or(TimeDelta::minutes(1));
    let a_minute = |point: &Point, number: u64| {
        // A step that has just begun is shorter.
        #[expect(clippy::cast_precision_loss, reason = "a chart shows no more than three digits")]
        let number = number as f64;
        Some(if point.seconds > 0.0 { number * 60.0 / point.seconds } else { 0.0 })
    };
    let series = |name, class, value: &dyn Fn(&Point) -> Option<f64>| Series {
        name,
        class,
        values: points.iter().map(value).collect(),
    };
    let quantiles = |title, part: fn(&Summary) -> Option<Quantiles>| Data {
        title,
        unit: Unit::Seconds,
        form: Form::Lines,
        times: &times,
        step,
        series: vec![
            series("median", "c1", &|point| part(&point.work).map(|times| times.p50)),
            series("95 %", "c2", &|point| part(&point.work).map(|times| times.p95)),
        ],
    };
    let done = Data {
        title: "Attempts per minute",
        unit: Unit::Jobs,
        form: Form::Bars,
        times: &times,
        step,
        series: vec![
            series("completed", "c1", &|point| a_minute(point, point.work.completed)),
            series("failed", "c3", &|point| a_minute(point, point.work.retried + point.work.discarded)),
        ],
    };
    let failed = Data {
        title: "Failed attempts",
        unit: Unit::Percent,
        form: Form::Lines,
        times: &times,
        step,
        series: vec![series("failed", "c3", &|point| point.work.failed_share().map(|share| share * 100.0))],
    };
    [done, failed, quantiles("Wait time", |work| work.wait), quantiles("Run time", |work| work.run)]
        .iter()
        .map(Chart::new)
        .collect()
}

pub(crate) async fn overview(visit: Visit) -> Page {
    let range = range(&visit.pairs())?;
    visit.site.doctor_reports.begin(visit.site.shared_operator(), EXAMINED_EVERY);
    let shell = visit.shell(Place::Overview, "Overview").await?.live("/", &visit.query);
    let operator = visit.site.operator();
    let (stats, workers, dead) = (operator.stats().await?, operator.workers().await?, operator.dead_letters().await?);
    let settings = operator.queues().await?;
    let points = visit.site.charts.points(visit.site.shared_operator(), range.range, range.step).await?;
    let schedules = changes::schedules(&visit.site).await?;
    let of_operators = (settings.as_slice(), &*operator.kinds().await?, &*operator.limit_settings().await?);
    let changes = changes::changes(&shell.base, of_operators, &workers, &schedules);
    let failed = |schedule: &&ScheduleRecord| schedule.last_result == Some(JobState::Discarded);
    let discarded_schedules = schedules.iter().filter(failed).map(|schedule| schedule.name.clone()).collect();
    let failing_kinds = failing_kinds(&operator.outcomes(HOUR).await?);
    let sample = Sample::new(stats, settings, &workers);
    visit.site.remember(&sample);
    let ranges = RANGES.map(|other| (other.name, shell.one("/", "range", other.name), other == range)).into();
    let (doctor_report, _) = visit.site.doctor_reports.last();
    let (failing, others_failing) = failures::newest(&visit.site, &shell).await?;
    let charts = charts(&points, range.step);
    render(&OverviewPage {
        shell,
        sample,
        dead,
        doctor_report,
        ranges,
        charts,
        failing,
        others_failing,
        failing_kinds,
        changes,
        discarded_schedules,
    })
}
