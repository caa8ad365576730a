//! Plots of tables over the number of sources.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::{
    coord::ranged1d::{AsRangedCoord, ValueFormatter},
    prelude::*,
};

use crate::table::{Axis, Row, Table};

/// Draws the rows of a table.
pub(crate) fn draw(table: &Table, path: &Path) -> Result<()> {
    let figures = || rows(table).flat_map(|row| row.figures.iter().flatten().copied());
    let (least, most) = (figures().fold(f64::MAX, f64::min), figures().fold(f64::MIN, f64::max));
    let drawn = match table.axis {
        Axis::Linear => lines(table, 0.0..most * 1.3, path),
        Axis::Logarithmic => lines(table, (least / 1.3..most * 1.3).log_scale(), path),
    };
    // Errors of the backend are not `Send`, which `anyhow` requires.
    drawn.map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn rows(table: &Table) -> impl Iterator<Item = &Row> {
    table.rows.iter().filter(|row| row.is_drawn)
}

fn lines<Y>(table: &Table, figures: Y, path: &Path) -> Result<(), Box<dyn std::error::Error>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let area = SVGBackend::new(path, (860, 440)).into_drawing_area();
    area.fill(&WHITE)?;
    // More columns than figures, for the names of the lines.
    let last = table.columns.len() + table.columns.len().div_ceil(4) - 1;
    let mut chart = ChartBuilder::on(&area)
        .caption(&table.title, ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(52)
        .build_cartesian_2d(0..last as i32, figures)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_labels(last + 1)
        .x_label_formatter(&|index| table.columns.get(*index as usize).cloned().unwrap_or_default())
        .y_label_formatter(&|figure| format!("{figure:.*}", usize::from(*figure < 10.0)))
        .draw()?;
    for (index, row) in rows(table).enumerate() {
        let style = Palette99::pick(index).stroke_width(2);
        let points: Vec<_> = (0..).zip(row.figures.iter().copied()).collect();
        // A missing figure is no part of a line.
        let parts = points.chunk_by(|a, b| a.1.is_some() == b.1.is_some());
        for part in parts {
            let points = part.iter().filter_map(|(column, figure)| Some((*column, (*figure)?)));
            chart.draw_series(LineSeries::new(points, style).point_size(3))?;
        }
        let no_points = LineSeries::new([], style);
        let legend = chart.draw_series(no_points)?.label(&row.name);
        legend.legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}
