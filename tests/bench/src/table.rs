//! Tables of figures, as text and as Markdown.

use std::fmt::Write as _;

/// Figures by row and column.
pub(crate) struct Table {
    pub(crate) title: String,
    /// What the figures are, in sentences, where the title does not say it.
    pub(crate) about: &'static str,
    /// File name of its plot, if it has one.
    pub(crate) plot: Option<&'static str>,
    /// The vertical axis of the plot.
    pub(crate) axis: Axis,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Decimal places.
    pub(crate) digits: usize,
    /// The rows that ratios refer to.
    pub(crate) references: &'static [&'static str],
}

/// The axis of the figures in a plot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// From 0.
    Linear,
    Logarithmic,
}

/// One row, with a figure for some columns.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) figures: Vec<Option<f64>>,
    /// Whether it is a line of the plot.
    pub(crate) is_drawn: bool,
}

impl Table {
    /// Returns a table without a plot.
    pub(crate) fn plain<const N: usize>(title: &str, columns: [&str; N], rows: Vec<Row>, digits: usize) -> Self {
        let columns = columns.map(str::to_owned).to_vec();
        let title = title.to_owned();
        Self { title, about: "", plot: None, axis: Axis::Logarithmic, columns, rows, digits, references: &[] }
    }

    /// Returns the table for the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        if !self.about.is_empty() {
            text += &format!("{}\n", self.about);
        }
        let width = self.lines().iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(20);
        let _ = write!(text, "  {:<width$}", "");
        let widths: Vec<usize> = self.columns.iter().map(|column| column.chars().count().max(7)).collect();
        for (column, width) in self.columns.iter().zip(&widths) {
            let _ = write!(text, " {column:>width$}");
        }
        for (name, cells) in self.lines() {
            let _ = write!(text, "\n  {name:<width$}");
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(text, " {cell:>width$}");
            }
        }
        text + "\n"
    }

    /// Returns the table for a document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("| |{}\n|---|{}\n", cells(&self.columns), " ---: |".repeat(self.columns.len()));
        for (name, figures) in self.lines() {
            let _ = writeln!(text, "| {} |{}", name.trim(), cells(&figures));
        }
        text
    }

    /// Returns the lines, with ratios to the references below each row.
    fn lines(&self) -> Vec<(String, Vec<String>)> {
        let references = self.references.iter().filter_map(|name| self.rows.iter().find(|row| row.name == *name));
        let references: Vec<&Row> = references.collect();
        let mut lines = Vec::new();
        for row in &self.rows {
            let show =
                |figure: &Option<f64>| figure.map_or(String::new(), |figure| format!("{figure:.*}", self.digits));
            lines.push((row.name.clone(), row.figures.iter().map(show).collect()));
            for reference in references.iter().filter(|reference| reference.name != row.name) {
                let ratios = row.figures.iter().zip(&reference.figures).map(|pair| match pair {
                    (Some(figure), Some(reference)) => format!("×{:.2}", figure / reference),
                    _ => String::new(),
                });
                lines.push((format!("  ratio to {}", reference.name), ratios.collect()));
            }
        }
        lines
    }
}

fn cells(values: &[String]) -> String {
    values.iter().fold(String::new(), |text, value| text + " " + value + " |")
}
