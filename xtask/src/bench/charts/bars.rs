//! Bar charts: one group per variant, one bar per side, with the range of the runs.

use anyhow::{Result, anyhow};
use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    super::{
        line::{Line, Side},
        number::number,
    },
    FAINT, FONT, INK, WIDTH, colour,
};

/// The x coordinates at which bars begin and at which the longest bar ends.
const LEFT: i32 = 180;
const RIGHT: i32 = WIDTH as i32 - 110;
/// Heights in pixels.
const TITLE: i32 = 44;
const HEADING: i32 = 28;
const BAR: i32 = 20;
const GAP: i32 = 12;

/// Returns the chart of these variants as SVG.
pub(super) fn draw(title: &str, lines: &[&Line]) -> Result<String> {
    let bars: usize = lines.iter().map(|line| line.sides.len()).sum();
    let height = TITLE + (HEADING + GAP) * i32::try_from(lines.len())? + BAR * i32::try_from(bars)?;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height.unsigned_abs())).into_drawing_area();
        paint(&area, title, lines).map_err(|error| anyhow!("cannot draw `{title}`: {error}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn paint<'a>(area: &Area<'a>, title: &str, lines: &[&Line]) -> Drawn<'a> {
    let text = |size: u32, side: HPos| (FONT, size).into_font().color(&INK).pos(Pos::new(side, VPos::Center));
    let longest = lines.iter().flat_map(|line| &line.sides).map(|side| side.figure.max).fold(0.0, f64::max);
    let place = |value: f64| LEFT + (f64::from(RIGHT - LEFT) * value / longest.max(f64::MIN_POSITIVE)).round() as i32;
    area.fill(&WHITE)?;
    area.draw_text(title, &text(21, HPos::Left), (16, TITLE / 2))?;
    let mut top = TITLE;
    for line in lines {
        area.draw_text(&line.variant, &text(17, HPos::Left), (16, top + HEADING / 2))?;
        top += HEADING;
        for Side { name, figure } in &line.sides {
            let middle = top + BAR / 2;
            area.draw_text(name, &text(15, HPos::Right), (LEFT - 8, middle))?;
            let bar = [(LEFT, top + 2), (place(figure.median), top + BAR - 2)];
            area.draw(&Rectangle::new(bar, colour(name).filled()))?;
            if figure.max > figure.min {
                area.draw(&PathElement::new([(place(figure.min), middle), (place(figure.max), middle)], INK))?;
            }
            area.draw_text(&number(figure.median), &text(15, HPos::Left), (place(figure.max) + 6, middle))?;
            top += BAR;
        }
        top += GAP;
        area.draw(&PathElement::new([(16, top - GAP / 2), (WIDTH as i32 - 16, top - GAP / 2)], FAINT))?;
    }
    area.present()
}

#[cfg(test)]
mod tests {
    use super::{super::super::line, *};

    #[test]
    fn every_side_of_every_variant_has_its_bar_and_its_figure() {
        let lines = line::read(
            r#"{"measure":"m","variant":"one & two","unit":"jobs/s","ours":8000,"raw":10000}
               {"measure":"m","variant":"three","unit":"jobs/s","ours":0}"#,
        )
        .unwrap();
        let svg = draw("m, jobs/s", &lines.iter().collect::<Vec<_>>()).unwrap();
        for text in ["m, jobs/s", "one &amp; two", "three", "8,000", "10,000", "raw SQL"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert_eq!(svg.matches("#2563EB").count(), 2, "{svg}");
    }
}
