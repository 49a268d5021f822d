//! One SVG per measure and unit, and one for rates over time.

mod bars;
mod series;

use std::{fs, path::Path};

use anyhow::{Context, Result};
use plotters::style::RGBColor;

use super::line::Line;

const WIDTH: u32 = 860;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);
const FAINT: RGBColor = RGBColor(0xd1, 0xd5, 0xdb);

/// Draws the charts of the lines of one measure. Returns the names of the files.
pub(super) fn draw(dir: &Path, name: &str, title: &str, lines: &[&Line]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut units: Vec<&str> = Vec::new();
    for line in lines {
        if !units.contains(&line.unit.as_str()) {
            units.push(&line.unit);
        }
    }
    for (at, unit) in units.iter().enumerate() {
        let lines: Vec<&Line> = lines.iter().copied().filter(|line| line.unit == *unit).collect();
        let file = if at == 0 { format!("{name}.svg") } else { format!("{name}-{}.svg", slug(unit)) };
        save(dir, &file, &bars::draw(&format!("{title}, {unit}"), &lines)?)?;
        files.push(file);
    }
    for line in lines {
        let series = series::of(line);
        if !series.is_empty() {
            let file = format!("{name}-windows.svg");
            save(dir, &file, &series::draw(&format!("{title}: {} per window", line.unit), &series)?)?;
            files.push(file);
        }
    }
    Ok(files)
}

fn save(dir: &Path, file: &str, svg: &str) -> Result<()> {
    let path = dir.join(file);
    fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))
}

fn slug(unit: &str) -> String {
    unit.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// Returns the colour of a side. It is the same in all charts.
fn colour(name: &str) -> RGBColor {
    match name {
        "jobs" => RGBColor(0x25, 0x63, 0xeb),
        "raw SQL" => RGBColor(0x9c, 0xa3, 0xaf),
        name if name.starts_with("jobs") => RGBColor(0x60, 0xa5, 0xfa),
        "graphile_worker" => RGBColor(0x0d, 0x94, 0x88),
        name if name.starts_with("apalis") => RGBColor(0xd9, 0x77, 0x06),
        "riverqueue" => RGBColor(0x7c, 0x3a, 0xed),
        _ => RGBColor(0xbe, 0x18, 0x5d),
    }
}
