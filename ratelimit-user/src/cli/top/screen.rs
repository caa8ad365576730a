//! Draws the screen.

use std::env;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row as Cells, Table, TableState, Wrap},
};
use ratelimit_base::text::amount::{about, amount};

use super::{
    change::Verdict,
    reading::{Reading, Row, View},
    state::{Mode, State},
};
use crate::cli::print::source_row;

const KEYS: &str = "Tab view  s sort  / filter  p pause  b ban  a allow  0 reset  ? help  q quit";

const HELP: &str = "\
Tab, 1 2 3 4   sources, services, reasons, interfaces
Up, Down       select a row
s              sort: refused/s, passed/s, refused, passed
/              show only rows that contain a text; Esc shows all
p, Space       pause, and go on
b              drop all packets of the selected source for 10 minutes
a              let all packets of the selected source pass
0              count totals from now on, on this screen only
q, Esc         quit

~ marks estimates. Rates are packets per second.
Any key ends this help.";

pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let head = [Constraint::Length(1), Constraint::Length(1), Constraint::Length(2), Constraint::Length(1)];
    let last = last_line(state);
    let lines = last.chars().count().div_ceil(frame.area().width.max(1).into()).clamp(1, 3) as u16;
    let rest = [Constraint::Min(0), Constraint::Length(lines)];
    let parts = Layout::vertical(head.into_iter().chain(rest)).split(frame.area());
    let Reading { interfaces, diagnosis, .. } = &state.reading;
    let paused = if state.is_paused() { "  PAUSED" } else { "" };
    frame.render_widget(Line::styled(format!("{interfaces}{paused}"), bold()), parts[0]);
    frame.render_widget(Line::raw(rates(&state.reading)), parts[1]);
    let text = state.problem.as_deref().unwrap_or(diagnosis);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), parts[2]);
    frame.render_widget(tabs(state), parts[3]);
    if state.mode == Mode::Help {
        frame.render_widget(Paragraph::new(HELP), parts[4]);
    } else {
        table(frame, parts[4], state);
    }
    frame.render_widget(Paragraph::new(last).wrap(Wrap { trim: true }), parts[5]);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Returns the style of refused packets. Without colors, they are bold.
fn refused(packets: u64) -> Style {
    match packets {
        0 => Style::new(),
        _ if env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) => bold(),
        _ => Style::new().fg(Color::Red),
    }
}

fn rates(reading: &Reading) -> String {
    let now = &reading.now;
    let [passed, dropped, would_drop] = [now.passed, now.dropped, now.would_drop].map(|traffic| traffic.packets);
    let shadow = if would_drop > 0 { format!("  would drop {}/s", amount(would_drop)) } else { String::new() };
    let (sources, is_estimate) = reading.sources;
    let sources = if is_estimate { format!("~{}", amount(about(sources as u64))) } else { amount(sources as u64) };
    format!("passed {}/s  dropped {}/s{shadow}  sources {sources}", amount(passed), amount(dropped))
}

fn tabs(state: &State) -> Line<'static> {
    let tab = |view: View| {
        let style = if view == state.view() { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        [Span::styled(format!(" {} ", view.name()), style), Span::raw(" ")]
    };
    let mut spans: Vec<Span<'static>> = View::ALL.into_iter().flat_map(tab).collect();
    spans.push(Span::raw(format!(" by {}", state.sort().name())));
    if !state.filter.is_empty() {
        spans.push(Span::raw(format!("  with {:?}", state.filter)));
    }
    if state.is_reset() {
        spans.push(Span::raw("  totals since 0"));
    }
    Line::from(spans)
}

fn table(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let (kind, detail) = match state.view() {
        View::Sources => ("service", "policy"),
        View::Services => ("", "of"),
        View::Reasons => ("verdict", ""),
        View::Interfaces => ("", "mode"),
    };
    let rows = state.rows();
    let head = [state.view().name(), kind, "passed/s", "refused/s", "passed", "refused", detail];
    let texts = |row: &Row| {
        let [mark_passed, mark_over] = row.are_estimates.map(source_row::mark);
        let [passed, over] = row.per_second.map(amount);
        let [all_passed, all_over] = row.total.map(amount);
        let [passed, all_passed] = [passed, all_passed].map(|number| format!("{mark_passed}{number}"));
        let [over, all_over] = [over, all_over].map(|number| format!("{mark_over}{number}"));
        [row.name.clone(), row.kind.clone(), passed, over, all_passed, all_over, row.detail.clone()]
    };
    let texts: Vec<_> = rows.iter().map(texts).collect();
    let width = |column: usize, least: usize, most: usize| {
        let longest = texts.iter().map(|texts: &[String; 7]| texts[column].chars().count()).max().unwrap_or(0);
        Constraint::Length(longest.max(head[column].len()).max(least).min(most) as u16)
    };
    let widths = [
        width(0, 10, 39),
        width(1, 0, 15),
        width(2, 0, 10),
        width(3, 0, 10),
        width(4, 8, 10),
        width(5, 8, 10),
        Constraint::Fill(1),
    ];
    let cell = |column: usize, text: String| match column {
        2..=5 => Cell::from(Line::raw(text).right_aligned()),
        _ => Cell::from(text),
    };
    let head = head.into_iter().enumerate().map(|(column, text)| cell(column, text.to_owned()));
    let cells = |(row, texts): (&Row, &[String; 7])| {
        let cells = texts.iter().enumerate().map(|(column, text)| {
            let style = if column == 3 { refused(row.per_second[1]) } else { Style::new() };
            cell(column, text.clone()).style(style)
        });
        Cells::new(cells)
    };
    let table = Table::new(rows.iter().zip(&texts).map(cells), widths)
        .header(Cells::new(head).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected = TableState::new().with_selected(state.selected());
    frame.render_stateful_widget(table, area, &mut selected);
}

fn last_line(state: &State) -> String {
    match &state.mode {
        Mode::Filter => format!("filter: {}_  (Enter keeps it, Esc shows all)", state.filter),
        Mode::Confirm(Verdict::Ban, prefix) => format!("drop all packets of {prefix} for 10 minutes? y/n"),
        Mode::Confirm(Verdict::Allow, prefix) => format!("let all packets of {prefix} pass, without an end? y/n"),
        Mode::Normal | Mode::Help => state.message.clone().unwrap_or_else(|| KEYS.to_owned()),
    }
}
