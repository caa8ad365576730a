//! What the screen shows, and what keys do to it. No terminal and no instance is needed here.

use std::{cmp::Reverse, collections::HashMap};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratelimit_base::text::prefix::Prefix;

use super::{
    change::Verdict,
    followed::By,
    reading::{Reading, Row, View},
};

/// The order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    #[default]
    RefusedPerSecond,
    PassedPerSecond,
    Refused,
    Passed,
}

impl Sort {
    const ALL: [Self; 4] = [Self::RefusedPerSecond, Self::PassedPerSecond, Self::Refused, Self::Passed];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::RefusedPerSecond => "refused/s",
            Self::PassedPerSecond => "passed/s",
            Self::Refused => "refused",
            Self::Passed => "passed",
        }
    }

    fn key(self, row: &Row) -> u64 {
        // One or two samples count for nothing.
        let rate = |side: usize| row.few[side].map_or(row.per_second[side], |few| few.sure);
        match self {
            Self::RefusedPerSecond => rate(1),
            Self::PassedPerSecond => rate(0),
            Self::Refused => row.total[1],
            Self::Passed => row.total[0],
        }
    }
}

/// What keys are for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Normal,
    /// They are the text of the filter.
    Filter,
    /// One of them confirms.
    Confirm(Verdict, Prefix),
    /// Any of them ends the help.
    Help,
}

/// What the loop must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    End,
    Set(Verdict, Prefix),
}

/// The totals of rows, by table, name and kind.
type Totals = HashMap<(View, String, String), [u64; 2]>;

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) reading: Reading,
    view: View,
    sort: Sort,
    pub(super) filter: String,
    pub(super) mode: Mode,
    is_paused: bool,
    /// Why the last reading failed.
    pub(super) problem: Option<String>,
    /// What the last change did.
    pub(super) message: Option<String>,
    selected: usize,
    /// The name and the kind of the selected row, which stays selected when rows change places.
    chosen: Option<(String, String)>,
    /// The totals from which on the operator counts, since a key has reset them.
    base: Option<Totals>,
}

impl State {
    pub(super) fn new(reading: Reading) -> Self {
        Self { reading, ..Self::default() }
    }

    pub(super) const fn view(&self) -> View {
        self.view
    }

    pub(super) const fn sort(&self) -> Sort {
        self.sort
    }

    /// Returns what sources to search for.
    pub(super) const fn by(&self) -> By {
        match self.sort {
            Sort::RefusedPerSecond | Sort::Refused => By::Refused,
            Sort::PassedPerSecond | Sort::Passed => By::Passed,
        }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns whether totals count from a key.
    pub(super) const fn is_reset(&self) -> bool {
        self.base.is_some()
    }

    /// Shows a new reading.
    pub(super) fn show(&mut self, reading: Reading) {
        self.reading = reading;
        self.problem = None;
        if let Some(base) = self.base.take() {
            self.base = Some(self.totals(&base));
        }
        if let Some((name, kind)) = &self.chosen {
            let place = self.rows().iter().position(|row| row.name == *name && row.kind == *kind);
            self.selected = place.unwrap_or(self.selected);
        }
    }

    /// Shows why there is no new reading.
    pub(super) fn fail(&mut self, problem: String) {
        self.reading = Reading::default();
        self.problem = Some(problem);
    }

    pub(super) fn say(&mut self, message: String) {
        self.message = Some(message);
    }

    /// Returns the totals of all rows. Those that are known stay. A row that comes later counts from then on.
    fn totals(&self, known: &Totals) -> Totals {
        let key = |view: &View, row: &Row| (*view, row.name.clone(), row.kind.clone());
        let rows =
            self.reading.rows.iter().flat_map(|(view, rows)| rows.iter().map(move |row| (key(view, row), row.total)));
        rows.map(|(key, total)| {
            let total = known.get(&key).copied().unwrap_or(total);
            (key, total)
        })
        .collect()
    }

    /// Returns the rows of the view that match the filter, in their order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let all = self.reading.rows.get(&self.view).into_iter().flatten();
        let matches = |row: &&Row| {
            let texts = [&row.name, &row.kind, &row.detail];
            self.filter.is_empty() || texts.iter().any(|text| text.contains(&self.filter))
        };
        let since = |row: &Row| {
            let mut row = row.clone();
            if self.base.is_some() && self.view == View::Services {
                row.total = self.of_service(&row.name);
                return row;
            }
            let base = self.base.as_ref().and_then(|base| base.get(&(self.view, row.name.clone(), row.kind.clone())));
            for (total, base) in row.total.iter_mut().zip(base.copied().unwrap_or_default()) {
                *total = total.saturating_sub(base);
            }
            row
        };
        let mut rows: Vec<Row> = all.filter(matches).map(since).collect();
        rows.sort_by_key(|row| Reverse(self.sort.key(row)));
        rows
    }

    /// Returns what the sources of a service have sent since the totals count. Other sources may have been followed
    /// then, so a base of the service says nothing.
    fn of_service(&self, service: &str) -> [u64; 2] {
        let sources = self.reading.rows.get(&View::Sources).into_iter().flatten();
        let since = |row: &Row| {
            let key = (View::Sources, row.name.clone(), row.kind.clone());
            let base = self.base.as_ref().and_then(|base| base.get(&key)).copied().unwrap_or(row.total);
            [0, 1].map(|side: usize| row.total[side].saturating_sub(base[side]))
        };
        let of_service = sources.filter(|row| row.kind == service).map(since);
        of_service.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    }

    /// Returns the number of the selected row, if there is any.
    pub(super) fn selected(&self) -> Option<usize> {
        self.rows().len().checked_sub(1).map(|last| self.selected.min(last))
    }

    /// Does what a key is for.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Action::End);
        }
        match std::mem::take(&mut self.mode) {
            Mode::Normal => return self.command(key.code),
            Mode::Filter => self.edit(key.code),
            Mode::Confirm(verdict, prefix) if key.code == KeyCode::Char('y') => {
                return Some(Action::Set(verdict, prefix));
            }
            Mode::Confirm(..) => self.say("nothing changed".to_owned()),
            Mode::Help => {}
        }
        None
    }

    fn edit(&mut self, key: KeyCode) {
        self.mode = Mode::Filter;
        match key {
            KeyCode::Char(character) => self.filter.push(character),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.mode = Mode::Normal,
            KeyCode::Esc => (self.mode, self.filter) = (Mode::Normal, String::new()),
            _ => {}
        }
    }

    fn command(&mut self, key: KeyCode) -> Option<Action> {
        self.message = None;
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::End),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort = next(&Sort::ALL, self.sort, 1),
            KeyCode::Char('0') => {
                self.base = Some(self.totals(&HashMap::new()));
            }
            KeyCode::Char('b') => self.ask(Verdict::Ban),
            KeyCode::Char('a') => self.ask(Verdict::Allow),
            KeyCode::Char(digit @ '1'..='4') => self.turn_to(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.turn_to(next(&View::ALL, self.view, 1)),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(next(&View::ALL, self.view, View::ALL.len() - 1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(|row| row + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(|row| row.saturating_sub(1)),
            _ => {}
        }
        None
    }

    fn turn_to(&mut self, view: View) {
        (self.view, self.selected, self.chosen) = (view, 0, None);
    }

    fn select(&mut self, place: impl Fn(usize) -> usize) {
        self.selected = self.selected().map_or(0, place);
        let row = self.selected().and_then(|row| self.rows().into_iter().nth(row));
        self.chosen = row.map(|row| (row.name, row.kind));
    }

    /// Returns whether the next key answers a question.
    pub(super) const fn is_asking(&self) -> bool {
        matches!(self.mode, Mode::Confirm(..))
    }

    fn ask(&mut self, verdict: Verdict) {
        let selected = self.selected().and_then(|row| self.rows().get(row).and_then(|row| row.source));
        match selected {
            Some(prefix) => self.mode = Mode::Confirm(verdict, prefix),
            None => self.say("select a source first: 1 shows them".to_owned()),
        }
    }
}

/// Returns the value that comes some places after this one.
fn next<T: Copy + PartialEq>(all: &[T], value: T, places: usize) -> T {
    let place = all.iter().position(|other| *other == value).unwrap_or_default();
    all[(place + places) % all.len()]
}
