//! The chart, as SVG: for each series the rate in the upper row and the wait in the lower row.

use std::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::numbers::number;
use super::ramp::Ramp;
use super::step::{Pickup, Series, Step};

const SIZE: (u32, u32) = (1200, 640);
const RATE: RGBColor = RGBColor(0x9d, 0xb8, 0xd9);
const KNEE: RGBColor = RGBColor(0x2b, 0x5c, 0x9e);
const P50: RGBColor = RGBColor(0x2e, 0x8b, 0x57);
const P99: RGBColor = RGBColor(0xc0, 0x50, 0x3a);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

const FONT: (&str, i32) = ("sans-serif", 15);

/// The y axis ends at the highest value times this.
const HEADROOM: f64 = 1.15;

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// One series, and the labels of its column.
struct Column<'a> {
    title: &'a str,
    axis: &'a str,
    series: &'a Series,
    place: fn(&Step) -> usize,
}

pub(super) fn draw(title: &str, ramp: &Ramp) -> Result<String, Box<dyn Error>> {
    let columns = [
        Column { title: "one by one", axis: "connections", series: &ramp.enqueue, place: |step| step.connections },
        Column { title: "in batches", axis: "jobs in a batch", series: &ramp.batches, place: |step| step.batch },
        Column { title: "worked off", axis: "worker processes", series: &ramp.work, place: |step| step.processes },
    ];
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(title, ("sans-serif", 22))?;
        let panels = root.split_evenly((2, columns.len()));
        let (rates, waits) = panels.split_at(columns.len());
        for (column, (above, below)) in columns.iter().zip(rates.iter().zip(waits)) {
            rate(above, column)?;
            wait(below, column)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// Draws one bar per step. The bar of the knee has another colour.
fn rate(panel: &Panel<'_>, column: &Column<'_>) -> Drawn {
    let Column { series, title, .. } = column;
    let most = series.steps.iter().map(|step| step.jobs_per_second).fold(1.0, f64::max) * HEADROOM;
    frame!(panel, column, format!("{title}: jobs/s"), most, chart);
    for (at, step) in series.steps.iter().enumerate() {
        let middle = at as f64;
        let color = if at == series.knee { KNEE } else { RATE };
        let corners = [(middle - 0.32, 0.0), (middle + 0.32, step.jobs_per_second)];
        let style = FONT.into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Bottom));
        chart.draw_series([Rectangle::new(corners, color.filled())])?;
        chart.draw_series([Text::new(number(step.jobs_per_second), (middle, step.jobs_per_second), style)])?;
    }
    Ok(())
}

/// Draws two lines: the median and the 99th percentile of the wait.
fn wait(panel: &Panel<'_>, column: &Column<'_>) -> Drawn {
    let known: Vec<(f64, Pickup)> =
        column.series.steps.iter().enumerate().filter_map(|(at, step)| Some((at as f64, step.pickup?))).collect();
    let most = known.iter().map(|(_, pickup)| pickup.p99_ms).fold(1.0, f64::max) * HEADROOM;
    frame!(panel, column, "pick-up, ms: p50 green, p99 red", most, chart);
    for (color, value) in [(P50, (|p| p.p50_ms) as fn(&Pickup) -> f64), (P99, |p| p.p99_ms)] {
        let points: Vec<(f64, f64)> = known.iter().map(|(at, pickup)| (*at, value(pickup))).collect();
        chart.draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?;
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 4, color.filled())))?;
    }
    Ok(())
}

/// Draws axes and grid. It is a macro because the type of the chart is too long to write in a function's signature.
macro_rules! frame {
    ($panel:ident, $column:ident, $caption:expr, $most:expr, $chart:ident) => {
        let steps = &$column.series.steps;
        let mut $chart = ChartBuilder::on($panel)
            .caption($caption, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(62)
            .build_cartesian_2d(-0.6..steps.len() as f64 - 0.4, 0.0..$most)?;
        let place = |at: &f64| {
            // Only whole numbers are steps. The label at any other place is empty.
            let step = (at.fract() == 0.0 && *at >= 0.0).then(|| steps.get(*at as usize)).flatten();
            step.map(|step| ($column.place)(step).to_string()).unwrap_or_default()
        };
        $chart
            .configure_mesh()
            .disable_x_mesh()
            .max_light_lines(0)
            .bold_line_style(GRID)
            .x_labels(steps.len() * 2 + 1)
            .y_labels(6)
            .x_label_formatter(&place)
            .y_label_formatter(&|value| if $most < 8.0 { format!("{value:.1}") } else { number(*value) })
            .x_desc($column.axis)
            .label_style(FONT)
            .draw()?;
    };
}
use frame;

#[cfg(test)]
mod tests {
    use super::super::step::tests::steps;
    use super::*;

    #[test]
    fn the_chart_names_each_step_and_its_rate() {
        let mut measured = steps(&[1_200.0, 2_400.0, 2_410.0]);
        measured[1].pickup = Pickup::of(vec![std::time::Duration::from_millis(3); 20]);
        let ramp =
            Ramp { enqueue: Series::new(steps(&[300.0])), batches: Series::new(vec![]), work: Series::new(measured) };
        let svg = draw("PostgreSQL", &ramp).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["PostgreSQL", "worked off: jobs/s", "worker processes", "1,200", "2,410"] {
            assert!(svg.contains(text), "{text:?} is missing");
        }
        for place in ["1", "2", "4"] {
            assert!(svg.lines().any(|line| line.trim() == place), "{place} is missing: {svg}");
        }
    }
}
