//! Charts as inline SVG. The picture is stretched to the available width. The labels are text beside it, so they stay
//! readable on a phone. Sizes and positions are attributes, because the Content-Security-Policy of the pages allows no
//! inline style.

mod scale;

use std::fmt::Write as _;

use askama::Template;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

pub(crate) use self::scale::Unit;

/// The size of the picture, in its own coordinates.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 200.0;

/// The values of one line or one colour of bars. `None` is a gap.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// The class of its colour: `c1` to `c4`.
    pub(crate) class: &'static str,
    pub(crate) values: Vec<Option<f64>>,
}

/// How values are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Bars, one on top of the other.
    Bars,
    /// Lines, with gaps.
    Lines,
}

/// What a chart shows.
pub(crate) struct Data<'a> {
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) form: Form,
    /// The beginning of each step.
    pub(crate) times: &'a [DateTime<Utc>],
    /// The length of a step.
    pub(crate) step: TimeDelta,
    pub(crate) series: Vec<Series>,
}

struct Rect {
    class: &'static str,
    x: String,
    y: String,
    width: String,
    height: String,
}

/// A step that shows its values when the pointer is on it.
struct Hit {
    at: String,
    x: String,
    width: String,
    title: String,
}

/// A chart that is ready to be written.
#[derive(Template)]
#[template(path = "chart.html")]
pub(crate) struct Chart {
    title: &'static str,
    unit: &'static str,
    legend: Vec<(&'static str, &'static str)>,
    labels: [String; 3],
    /// The labels of the axis of times, each with its exact time.
    times: Vec<(String, String)>,
    bars: Vec<Rect>,
    lines: Vec<(&'static str, String)>,
    hits: Vec<Hit>,
    /// What it shows, in words.
    summary: String,
    empty: bool,
}

impl askama::filters::HtmlSafe for Chart {}

/// A coordinate, with at most one decimal.
fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

impl Chart {
    pub(crate) fn new(data: &Data<'_>) -> Self {
        let Data { title, unit, form, times, step, series } = data;
        let highest = match form {
            Form::Bars => {
                (0..times.len()).map(|at| series.iter().filter_map(|s| s.values[at]).sum()).fold(0.0, f64::max)
            }
            Form::Lines => series.iter().flat_map(|s| s.values.iter().flatten()).copied().fold(0.0, f64::max),
        };
        let empty = series.iter().all(|s| s.values.iter().all(|value| value.is_none_or(|value| value == 0.0)));
        let top = unit.top(highest);
        let labels = [top, top / 2.0, 0.0].map(|value| unit.label(value));
        #[expect(clippy::cast_precision_loss, reason = "there are at most a few thousand steps")]
        let width = WIDTH / times.len().max(1) as f64;
        let mut chart = Self {
            title,
            unit: unit.name(),
            legend: series.iter().map(|s| (s.class, s.name)).collect(),
            labels,
            times: time_labels(times, *step),
            bars: Vec::new(),
            lines: Vec::new(),
            hits: Vec::new(),
            summary: summary(title, *unit, series),
            empty,
        };
        match form {
            Form::Bars => chart.bars = bars(series, times.len(), width, top),
            Form::Lines => chart.lines = series.iter().map(|s| (s.class, path(&s.values, width, top))).collect(),
        }
        chart.hits = hits(data, width);
        chart
    }
}

/// Bars from the bottom up.
fn bars(series: &[Series], steps: usize, width: f64, top: f64) -> Vec<Rect> {
    let mut bars = Vec::new();
    let mut x = 0.0;
    for step in 0..steps {
        let mut below = 0.0;
        for s in series {
            let value = s.values[step].unwrap_or_default();
            if value > 0.0 {
                // A bar is never too low to be visible.
                let height = (value / top * HEIGHT).max(1.0);
                below += height;
                bars.push(Rect {
                    class: s.class,
                    x: at(x + width * 0.08),
                    y: at(HEIGHT - below),
                    width: at(width * 0.84),
                    height: at(height),
                });
            }
        }
        x += width;
    }
    bars
}

/// A line through the middles of the steps, which begins again after a gap.
fn path(values: &[Option<f64>], width: f64, top: f64) -> String {
    let mut path = String::new();
    let (mut x, mut drawing) = (width / 2.0, false);
    for value in values {
        match value {
            Some(value) => {
                let y = at(HEIGHT - (value / top).clamp(0.0, 1.0) * HEIGHT);
                // A single point is a line without length: its round ends are visible.
                let _ = if drawing { write!(path, "L{} {y}", at(x)) } else { write!(path, "M{} {y}h0", at(x)) };
                drawing = true;
            }
            None => drawing = false,
        }
        x += width;
    }
    path
}

fn hits(data: &Data<'_>, width: f64) -> Vec<Hit> {
    let mut x = 0.0;
    let mut hits = Vec::with_capacity(data.times.len());
    for (step, time) in data.times.iter().enumerate() {
        let values: Vec<String> = data
            .series
            .iter()
            .map(|s| format!("{} {}", s.values[step].map_or_else(|| "–".to_owned(), |v| data.unit.value(v)), s.name))
            .collect();
        let day =
            if data.step >= TimeDelta::minutes(15) { time.format("%a %d %b %H:%M") } else { time.format("%H:%M") };
        hits.push(Hit {
            at: datetime(*time),
            x: at(x),
            width: at(width),
            title: format!("{day} UTC: {}", values.join(", ")),
        });
        x += width;
    }
    hits
}

/// A time as the script reads it.
fn datetime(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Five labels from the beginning to the end of the time.
fn time_labels(times: &[DateTime<Utc>], step: TimeDelta) -> Vec<(String, String)> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let whole = *last + step - *first;
    let format = if whole > TimeDelta::days(2) { "%a %d" } else { "%H:%M" };
    let label = |at: DateTime<Utc>| (datetime(at), at.format(format).to_string());
    (0..=4).map(|part| label(*first + whole * part / 4)).collect()
}

/// For readers who cannot see the picture.
fn summary(title: &str, unit: Unit, series: &[Series]) -> String {
    let mut text = format!("{title}.");
    for s in series {
        let values = || s.values.iter().flatten().copied();
        let Some(last) = values().last() else {
            let _ = write!(text, " {}: no data.", s.name);
            continue;
        };
        let highest = values().fold(0.0, f64::max);
        let _ = write!(text, " {}: at last {}, at most {}.", s.name, unit.value(last), unit.value(highest));
    }
    text
}

/// A small line without axes, for tables.
#[derive(Template)]
#[template(path = "spark.html")]
pub(crate) struct Spark {
    path: String,
    summary: String,
}

impl askama::filters::HtmlSafe for Spark {}

impl Spark {
    pub(crate) fn new(what: &str, values: &[Option<f64>]) -> Self {
        let highest = values.iter().flatten().copied().fold(0.0, f64::max);
        #[expect(clippy::cast_precision_loss, reason = "there are at most a few thousand steps")]
        let width = WIDTH / values.len().max(1) as f64;
        let path = if highest > 0.0 { path(values, width, highest) } else { String::new() };
        Self { path, summary: format!("{what}: at most {} per minute", Unit::Jobs.value(highest)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(number: i32) -> Vec<DateTime<Utc>> {
        let start = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        (0..number).map(|minute| start + TimeDelta::minutes(minute.into())).collect()
    }

    #[test]
    fn a_gap_ends_a_line_and_a_point_alone_is_seen() {
        let values = [Some(1.0), Some(2.0), None, Some(0.0)];
        assert_eq!(path(&values, 10.0, 2.0), "M5 100h0L15 0M35 200h0");
    }

    #[test]
    fn bars_stand_on_each_other() {
        let series = [
            Series { name: "completed", class: "c1", values: vec![Some(6.0)] },
            Series { name: "failed", class: "c3", values: vec![Some(2.0)] },
        ];
        let bars = bars(&series, 1, 1000.0, 10.0);
        assert_eq!((bars[0].y.as_str(), bars[0].height.as_str()), ("80", "120"));
        assert_eq!((bars[1].y.as_str(), bars[1].height.as_str()), ("40", "40"));
    }

    #[test]
    fn a_chart_has_axes_a_unit_and_a_summary() {
        let times = times(60);
        let values = (0..60).map(|minute| (minute < 59).then_some(f64::from(minute))).collect();
        let chart = Chart::new(&Data {
            title: "Throughput",
            unit: Unit::Jobs,
            form: Form::Lines,
            times: &times,
            step: TimeDelta::minutes(1),
            series: vec![Series { name: "completed", class: "c1", values }],
        });
        assert_eq!(chart.labels, ["100", "50", "0"]);
        let times: Vec<&str> = chart.times.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(times, ["08:00", "08:15", "08:30", "08:45", "09:00"]);
        assert_eq!(chart.summary, "Throughput. completed: at last 58, at most 58.");
        let html = chart.render().unwrap();
        assert!(html.contains("<title>08:59 UTC: – completed</title>") && !html.contains("style"), "{html}");
    }
}
