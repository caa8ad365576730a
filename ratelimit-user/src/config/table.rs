//! Tables and values of a TOML file that know where they stand, and collect what is wrong with them.

use std::{
    cell::{OnceCell, RefCell},
    fmt::Display,
    ops::Range,
    str::FromStr,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::problem::{Lines, Problem};

/// How alike two keys must be for one to be a slip of the other, from 0 to 1.
const ALIKE: f64 = 0.7;

/// The text, and what was found wrong with it so far.
#[derive(Debug)]
pub(super) struct Page<'a> {
    text: &'a str,
    /// Counted when the first problem is found.
    lines: OnceCell<Lines>,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Page<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, lines: OnceCell::new(), problems: RefCell::default() }
    }

    /// Notes a problem with a part of the text.
    pub(super) fn wrong(&self, span: Range<usize>, message: impl Into<String>) {
        self.problems.borrow_mut().push(Problem::at(self.text, self.lines(), span, message));
    }

    fn lines(&self) -> &Lines {
        self.lines.get_or_init(|| Lines::of(self.text))
    }

    /// Everything that is wrong, from the beginning on.
    pub(super) fn problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems
    }
}

/// One table.
#[derive(Debug, Clone)]
pub(super) struct Table<'a> {
    page: &'a Page<'a>,
    /// Its head, or all of it.
    pub(super) span: Range<usize>,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    pub(super) fn new(page: &'a Page<'a>, span: Range<usize>, entries: &'a DeTable<'a>) -> Self {
        Self { page, span, entries }
    }

    /// Reports keys that are neither `known` nor `aliases`, and returns whether there are none. Messages offer known keys only.
    pub(super) fn expect_keys(&self, known: &[&str], aliases: &[&str]) -> bool {
        let mut is_good = true;
        let is_expected = |key: &str| known.contains(&key) || aliases.contains(&key);
        for key in self.entries.keys().filter(|key| !is_expected(key.get_ref().as_ref())) {
            let name: &str = key.get_ref();
            let similar = known.iter().map(|known| (strsim::jaro_winkler(known, name), known));
            let nearest = similar.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(alike, _)| *alike >= ALIKE);
            let message = match nearest {
                Some((_, nearest)) => format!("no such key here: {nearest} is meant?"),
                None => format!("no such key here: expected {}", known.join(", ")),
            };
            self.page.wrong(key.span(), message);
            is_good = false;
        }
        is_good
    }

    /// The value of a key, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.entries.get(key).map(|value| Value { page: self.page, value })
    }

    /// All keys with their values.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'a Spanned<toml::de::DeString<'a>>, Value<'a>)> + use<'a> {
        let page = self.page;
        self.entries.iter().map(move |(key, value)| (key, Value { page, value }))
    }

    /// Notes a problem with the table as a whole.
    pub(super) fn wrong(&self, message: impl Into<String>) {
        self.page.wrong(self.span.clone(), message);
    }

    /// The line of a place in the text, from 1 on.
    pub(super) fn line(&self, place: usize) -> usize {
        self.page.lines().number(place)
    }
}

/// One value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    page: &'a Page<'a>,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Value<'a> {
    /// Notes a problem with it.
    pub(super) fn wrong(self, message: impl Into<String>) {
        self.page.wrong(self.value.span(), message);
    }

    /// The text of a string.
    pub(super) fn text(self) -> Option<&'a str> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.wrong("expected text in quotes");
        }
        text
    }

    /// What a string says.
    pub(super) fn parse<T: FromStr<Err: Display>>(self) -> Option<T> {
        let parsed = self.text()?.parse();
        parsed.map_err(|error: T::Err| self.wrong(error.to_string())).ok()
    }

    /// The words of a string, a number, a switch, or of each in an array: as an option of a command has them.
    pub(super) fn words(self) -> Option<Vec<String>> {
        match self.value.get_ref() {
            DeValue::Array(values) => {
                let values = values.iter().map(|value| Self { value, ..self }.word());
                values.collect()
            }
            _ => Some(vec![self.word()?]),
        }
    }

    fn word(self) -> Option<String> {
        let word = match self.value.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
            DeValue::Boolean(is_on) => Some(if *is_on { "on" } else { "off" }.to_owned()),
            _ => None,
        };
        if word.is_none() {
            self.wrong("expected text in quotes, a number, or true or false");
        }
        word
    }

    /// A date and time.
    pub(super) fn datetime(self) -> Option<toml::value::Datetime> {
        let DeValue::Datetime(datetime) = self.value.get_ref() else {
            self.wrong("expected a date and time, such as 2030-01-31T12:00:00Z");
            return None;
        };
        Some(*datetime)
    }

    /// A table.
    pub(super) fn table(self) -> Option<Table<'a>> {
        let DeValue::Table(entries) = self.value.get_ref() else {
            self.wrong("expected a table");
            return None;
        };
        Some(Table::new(self.page, self.value.span(), entries))
    }

    /// The tables of an array.
    pub(super) fn tables(self) -> Vec<Table<'a>> {
        let DeValue::Array(values) = self.value.get_ref() else {
            self.wrong("expected tables with double brackets");
            return Vec::new();
        };
        values.iter().filter_map(|value| Self { value, ..self }.table()).collect()
    }
}
