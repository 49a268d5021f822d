//! Rates over time: one line per side, one point per window.

use anyhow::{Result, anyhow};
use plotters::{coord::Shift, prelude::*};

use super::{
    super::{line::Line, number::number},
    FAINT, FONT, INK, WIDTH, colour,
};

const HEIGHT: u32 = 340;

/// A side and its rate in each window.
pub(super) type Series = (&'static str, Vec<f64>);

/// Returns the rates per window that a line contains.
pub(super) fn of(line: &Line) -> Vec<Series> {
    let windows = |key: &str| -> Option<Vec<f64>> {
        line.extra.get(key)?.as_array().map(|rates| rates.iter().filter_map(serde_json::Value::as_f64).collect())
    };
    let both = [("jobs", windows("windows")), ("raw SQL", windows("raw_windows"))];
    both.into_iter().filter_map(|(name, rates)| Some((name, rates?))).collect()
}

/// Returns the chart as SVG.
pub(super) fn draw(title: &str, series: &[Series]) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        paint(&area, title, series).map_err(|error| anyhow!("cannot draw `{title}`: {error}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn paint<'a>(area: &Area<'a>, title: &str, series: &[Series]) -> Drawn<'a> {
    let windows = series.iter().map(|(_, rates)| rates.len()).max().unwrap_or_default();
    let most = series.iter().flat_map(|(_, rates)| rates).copied().fold(1.0, f64::max);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 21).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(1.0..windows.max(2) as f64, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(FAINT)
        .label_style((FONT, 15).into_font().color(&INK))
        .x_labels(windows)
        .x_label_formatter(&|window| format!("{window:.0}"))
        .y_label_formatter(&|rate| number(*rate))
        .x_desc("window")
        .draw()?;
    for (name, rates) in series {
        let points = rates.iter().enumerate().map(|(at, rate)| ((at + 1) as f64, *rate));
        let colour = colour(name);
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(FAINT)
        .label_font((FONT, 15).into_font().color(&INK))
        .draw()?;
    area.present()
}

#[cfg(test)]
mod tests {
    use super::{super::super::line, *};

    #[test]
    fn both_sides_have_their_line() {
        let lines = line::read(
            r#"{"measure":"m","variant":"a","unit":"jobs/s","ours":8,"windows":[8000,9000,7000],"raw_windows":[9000,9000,9500]}"#,
        )
        .unwrap();
        let series = of(&lines[0]);
        assert_eq!(series[0], ("jobs", vec![8000.0, 9000.0, 7000.0]));
        let svg = draw("m", &series).unwrap();
        assert!(svg.matches("<polyline").count() >= 2 && svg.contains("raw SQL"), "{svg}");
    }

    #[test]
    fn a_line_without_windows_has_no_chart() {
        let lines = line::read(r#"{"measure":"m","variant":"a","unit":"jobs/s","ours":8}"#).unwrap();
        assert!(of(&lines[0]).is_empty());
    }
}
