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

~ marks estimates, and < a rate that is below. Rates are packets per second.
Any key ends this help.";

/// The least characters of each column. Rates do not move the others as they grow.
const LEAST: [usize; 7] = [10, 0, 8, 9, 8, 8, 0];
/// The first column, and the least characters of one that is cut.
const NAME: usize = 0;
const LEAST_OF_NAME: usize = 16;
/// The last column, and the least characters of one that is cut.
const POLICY: usize = 6;
const LEAST_OF_POLICY: usize = 8;

/// The lines of the diagnosis: the least, so that the table does not move with it, and the most, which a short screen does
/// not have.
const DIAGNOSIS: [usize; 2] = [2, 5];
/// The most lines at the end.
const LAST: usize = 3;

pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let [width, height] = [frame.area().width, frame.area().height].map(usize::from);
    let Reading { interfaces, diagnosis, .. } = &state.reading;
    let text = state.problem.as_deref().unwrap_or(diagnosis);
    let diagnosis = lines(text, width, DIAGNOSIS[1].min(height / 4).max(DIAGNOSIS[0]));
    let last = lines(&last_line(state), width, LAST);
    let heights = [1, 1, diagnosis.len().max(DIAGNOSIS[0]), 1].map(|lines| Constraint::Length(lines as u16));
    let rest = [Constraint::Min(0), Constraint::Length(last.len().max(1) as u16)];
    let parts = Layout::vertical(heights.into_iter().chain(rest)).split(frame.area());
    let paused = if state.is_paused() { "  PAUSED" } else { "" };
    let interfaces = shortened(interfaces, width.saturating_sub(paused.len()));
    frame.render_widget(Line::styled(format!("{interfaces}{paused}"), bold()), parts[0]);
    frame.render_widget(Line::raw(rates(&state.reading, width)), parts[1]);
    frame.render_widget(Paragraph::new(diagnosis.join("\n")), parts[2]);
    frame.render_widget(tabs(state, width), parts[3]);
    if state.mode == Mode::Help {
        frame.render_widget(Paragraph::new(HELP).wrap(Wrap { trim: false }), parts[4]);
    } else {
        table(frame, parts[4], state);
    }
    frame.render_widget(Paragraph::new(last.join("\n")), parts[5]);
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

fn rates(reading: &Reading, width: usize) -> String {
    let now = &reading.now;
    let [passed, dropped, would_drop] = [now.passed, now.dropped, now.would_drop].map(|traffic| traffic.packets);
    let (sources, is_estimate) = reading.sources;
    let sources = if is_estimate { format!("~{}", amount(about(sources as u64))) } else { amount(sources as u64) };
    let mut parts = vec![format!("passed {}/s", amount(passed)), format!("dropped {}/s", amount(dropped))];
    parts.extend((would_drop > 0).then(|| format!("would drop {}/s", amount(would_drop))));
    parts.push(format!("sources {sources}"));
    // Whole numbers, or none.
    while parts.len() > 1 && parts.join("  ").len() > width {
        parts.pop();
    }
    parts.join("  ")
}

/// Returns the names of the views, or only the present one if there is no room for all.
fn tabs(state: &State, width: usize) -> Line<'static> {
    let all = tabs_of(state, &View::ALL, usize::MAX);
    if all.width() <= width { all } else { tabs_of(state, &[state.view()], width) }
}

fn tabs_of(state: &State, views: &[View], width: usize) -> Line<'static> {
    let tab = |view: View| {
        let style = if view == state.view() { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        [Span::styled(format!(" {} ", view.name()), style), Span::raw(" ")]
    };
    let mut spans: Vec<Span<'static>> = views.iter().copied().flat_map(tab).collect();
    let mut rest = format!(" by {}", state.sort().name());
    if !state.filter.is_empty() {
        rest += &format!("  with {:?}", state.filter);
    }
    if state.is_reset() {
        rest += "  totals since 0";
    }
    let room = width.saturating_sub(spans.iter().map(Span::width).sum());
    spans.push(Span::raw(shortened(&rest, room)));
    Line::from(spans)
}

/// Breaks a text between its words into `most` lines at most. A mark ends one that is cut.
fn lines(text: &str, width: usize, most: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::<String>::new();
    for word in text.split([' ', '\n']) {
        match lines.last_mut().filter(|last| last.chars().count() + 1 + word.chars().count() <= width) {
            Some(last) => *last += &format!(" {word}"),
            None => {
                let letters: Vec<char> = word.chars().collect();
                lines.extend(letters.chunks(width).map(|part| part.iter().collect::<String>()));
            }
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let kept = last.chars().take(width - 1).collect::<String>();
            *last = kept + "…";
        }
    }
    lines
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
        let [passed, over] = [0, 1].map(|side: usize| {
            source_row::rate_text(row.per_second[side], row.are_estimates[side], row.few[side], amount)
        });
        let [all_passed, all_over] = [0, 1]
            .map(|side: usize| source_row::mark(row.are_totals_estimates[side]).to_owned() + &amount(row.total[side]));
        [row.name.clone(), row.kind.clone(), passed, over, all_passed, all_over, row.detail.clone()]
    };
    let texts: Vec<_> = rows.iter().map(texts).collect();
    let lengths = std::array::from_fn(|column| {
        let longest = texts.iter().map(|texts: &[String; 7]| texts[column].chars().count()).max().unwrap_or(0);
        longest.max(head[column].len()).max(LEAST[column])
    });
    let columns = columns_that_fit(lengths, area.width.into());
    let cell = |(column, width): (usize, usize), text: &str| match column {
        2..=5 => Cell::from(Line::raw(text.to_owned()).right_aligned()),
        _ => Cell::from(shortened(text, width)),
    };
    let head = columns.iter().map(|place| cell(*place, head[place.0]));
    let cells = |(row, texts): (&Row, &[String; 7])| {
        let cells = columns.iter().map(|place| {
            let style = if place.0 == 3 { refused(row.per_second[1]) } else { Style::new() };
            cell(*place, &texts[place.0]).style(style)
        });
        Cells::new(cells)
    };
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width as u16));
    let table = Table::new(rows.iter().zip(&texts).map(cells), widths)
        .header(Cells::new(head).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected = TableState::new().with_selected(state.selected());
    frame.render_stateful_widget(table, area, &mut selected);
}

/// Returns the columns that fit into a width, and their own widths. Numbers are shown whole or not at all.
fn columns_that_fit(mut lengths: [usize; 7], width: usize) -> Vec<(usize, usize)> {
    let mut shown: Vec<usize> = (0..lengths.len()).filter(|column| lengths[*column] != 0).collect();
    let needed = |shown: &[usize], lengths: &[usize; 7]| {
        shown.iter().map(|column| lengths[*column] + 1).sum::<usize>().saturating_sub(1)
    };
    let cut = |column: usize, least: usize, shown: &[usize], lengths: &mut [usize; 7]| {
        let beyond = needed(shown, lengths).saturating_sub(width);
        lengths[column] = lengths[column].saturating_sub(beyond).max(least.min(lengths[column]));
    };
    let leave_out = |columns: &[usize], shown: &mut Vec<usize>, lengths: &[usize; 7]| {
        for column in columns {
            if needed(shown, lengths) > width {
                shown.retain(|shown| shown != column);
            }
        }
    };
    cut(POLICY, LEAST_OF_POLICY, &shown, &mut lengths);
    // The rates tell more than the totals.
    leave_out(&[4, 5], &mut shown, &lengths);
    let whole = lengths[NAME];
    cut(NAME, LEAST_OF_NAME, &shown, &mut lengths);
    leave_out(&[POLICY, 1, 2, 3], &mut shown, &lengths);
    lengths[NAME] = whole;
    cut(NAME, 0, &shown, &mut lengths);
    shown.into_iter().map(|column| (column, lengths[column])).collect()
}

/// Cuts a text in its middle, with a mark.
fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    let Some(kept) = width.checked_sub(1).filter(|_| length > width) else { return text.to_owned() };
    let (first, last) = (kept.div_ceil(2), kept / 2);
    text.chars().take(first).chain(['…']).chain(text.chars().skip(length - last)).collect()
}

fn last_line(state: &State) -> String {
    match &state.mode {
        Mode::Filter => format!("filter: {}_  (Enter keeps it, Esc shows all)", state.filter),
        Mode::Confirm(Verdict::Ban, prefix) => format!("drop all packets of {prefix} for 10 minutes? y/n"),
        Mode::Confirm(Verdict::Allow, prefix) => format!("let all packets of {prefix} pass, without an end? y/n"),
        Mode::Normal | Mode::Help => state.message.clone().unwrap_or_else(|| KEYS.to_owned()),
    }
}
