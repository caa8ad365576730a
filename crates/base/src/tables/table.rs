//! Tables and values of a TOML file. They know their places and collect problems.

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

/// The similarity from which on a key counts as a typing error of another one, from 0 to 1.
const ALIKE: f64 = 0.7;

/// Keys and tables at the top level of a file.
pub const TOP: [&str; 20] = [
    "interfaces",
    "interface",
    "settings",
    "default",
    "allow",
    "service",
    "policy",
    "list",
    "rule",
    "state",
    "stops",
    "crowdsec",
    "metrics",
    "fleet",
    "serve",
    "check",
    "token",
    "console",
    "user",
    "view",
];

/// Returns the name of which another one is likely a typing error.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similar = known.map(|known| (strsim::jaro_winkler(known, name), known));
    let nearest = similar.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(alike, _)| *alike >= ALIKE);
    nearest.map(|(_, name)| name)
}

/// A text and the problems found in it so far.
#[derive(Debug)]
pub struct Page<'a> {
    text: &'a str,
    /// Computed when the first problem is found.
    lines: OnceCell<Lines>,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Page<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, lines: OnceCell::new(), problems: RefCell::default() }
    }

    /// Adds a problem with a part of the text.
    pub fn wrong(&self, span: Range<usize>, message: impl Into<String>) {
        self.problems.borrow_mut().push(Problem::at(self.text, self.lines(), span, message));
    }

    fn lines(&self) -> &Lines {
        self.lines.get_or_init(|| Lines::of(self.text))
    }

    /// Returns all problems, in the order of the text.
    pub fn problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems
    }
}

/// One table.
#[derive(Debug, Clone)]
pub struct Table<'a> {
    page: &'a Page<'a>,
    /// The place of its head, or of the whole table.
    pub span: Range<usize>,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    pub fn new(page: &'a Page<'a>, span: Range<usize>, entries: &'a DeTable<'a>) -> Self {
        Self { page, span, entries }
    }

    /// Adds a problem for each key that is neither in `known` nor in `aliases`. Returns whether there is none. Messages
    /// suggest known keys only.
    pub fn expect_keys(&self, known: &[&str], aliases: &[&str]) -> bool {
        let mut is_good = true;
        let is_expected = |key: &str| known.contains(&key) || aliases.contains(&key);
        for key in self.entries.keys().filter(|key| !is_expected(key.get_ref().as_ref())) {
            let name: &str = key.get_ref();
            let message = match nearest(name, known.iter().copied()) {
                Some(nearest) => format!("unknown key: did you mean {nearest}?"),
                None => format!("unknown key: expected {}", known.join(", ")),
            };
            self.page.wrong(key.span(), message);
            is_good = false;
        }
        is_good
    }

    /// Returns the value of a key, if the table has it.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.entries.get(key).map(|value| Value { page: self.page, value })
    }

    /// Returns all keys with their values.
    pub fn each(&self) -> impl Iterator<Item = (&'a Spanned<toml::de::DeString<'a>>, Value<'a>)> + use<'a> {
        let page = self.page;
        self.entries.iter().map(move |(key, value)| (key, Value { page, value }))
    }

    /// Adds a problem with a key of the table.
    pub fn wrong_key(&self, key: &Spanned<toml::de::DeString<'_>>, message: impl Into<String>) {
        self.page.wrong(key.span(), message);
    }

    /// Adds a problem with the table as a whole.
    pub fn wrong(&self, message: impl Into<String>) {
        self.page.wrong(self.span.clone(), message);
    }

    /// Returns where it is.
    pub fn place(&self) -> Place<'a> {
        Place { page: self.page, span: self.span.clone() }
    }
}

/// Where something is in the text.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    page: &'a Page<'a>,
    span: Range<usize>,
}

impl Place<'_> {
    /// Adds a problem with what is there.
    pub fn wrong(&self, message: impl Into<String>) {
        self.page.wrong(self.span.clone(), message);
    }

    /// Returns its start in the text.
    pub fn start(&self) -> usize {
        self.span.start
    }

    /// Returns the line of a start in the text. The first is 1.
    pub fn line(&self, start: usize) -> usize {
        self.page.lines().number(start)
    }
}

/// One value.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    page: &'a Page<'a>,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Value<'a> {
    /// Adds a problem with the value.
    pub fn wrong(self, message: impl Into<String>) {
        self.page.wrong(self.value.span(), message);
    }

    /// Returns where it is.
    pub fn place(self) -> Place<'a> {
        Place { page: self.page, span: self.value.span() }
    }

    /// Returns the elements of a list, which is not empty. `what` describes them.
    pub fn elements(self, what: &str) -> Vec<Self> {
        match self.value.get_ref() {
            DeValue::Array(values) if !values.is_empty() => values.iter().map(|value| Self { value, ..self }).collect(),
            DeValue::Array(_) => {
                self.wrong(format!("the list is empty: add {what}, or remove this key"));
                Vec::new()
            }
            _ => {
                self.wrong(format!("expected a list of {what} in brackets"));
                Vec::new()
            }
        }
    }

    /// Returns the text of a string.
    pub fn text(self) -> Option<&'a str> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.wrong("expected text in quotes");
        }
        text
    }

    /// Parses the text of a string.
    pub fn parse<T: FromStr<Err: Display>>(self) -> Option<T> {
        let parsed = self.text()?.parse();
        parsed.map_err(|error: T::Err| self.wrong(error.to_string())).ok()
    }

    /// Returns all strings of a list, or the only one, and adds no problem.
    pub fn texts(self) -> Vec<String> {
        let of = |value: &DeValue<'_>| value.as_str().map(str::to_owned);
        match self.value.get_ref() {
            DeValue::Array(values) => values.iter().filter_map(|value| of(value.get_ref())).collect(),
            value => of(value).into_iter().collect(),
        }
    }

    /// Returns a string, a whole number or a switch, or each element of an array.
    pub fn words(self) -> Option<Vec<String>> {
        self.each_word(false)
    }

    /// Returns the same as values of an option, which can be a fraction too.
    pub fn option_words(self) -> Option<Vec<String>> {
        self.each_word(true)
    }

    /// Returns whether it is true or false, or a list with one of them.
    pub fn has_switch(self) -> bool {
        let is_switch = |value: &DeValue<'_>| matches!(value, DeValue::Boolean(_));
        match self.value.get_ref() {
            DeValue::Array(values) => values.iter().any(|value| is_switch(value.get_ref())),
            value => is_switch(value),
        }
    }

    /// Returns the elements of a list, or the only value.
    pub fn values(self) -> Vec<Self> {
        match self.value.get_ref() {
            DeValue::Array(values) => values.iter().map(|value| Self { value, ..self }).collect(),
            _ => vec![self],
        }
    }

    fn each_word(self, with_fractions: bool) -> Option<Vec<String>> {
        self.values().into_iter().map(|value| value.word(with_fractions)).collect()
    }

    fn word(self, with_fractions: bool) -> Option<String> {
        let word = match self.value.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
            DeValue::Float(number) if with_fractions => Some(number.as_str().to_owned()),
            DeValue::Boolean(is_on) => Some(if *is_on { "on" } else { "off" }.to_owned()),
            _ => None,
        };
        if word.is_none() {
            self.wrong("expected text in quotes, a number, or true or false");
        }
        word
    }

    /// Returns a date and time.
    pub fn datetime(self) -> Option<toml::value::Datetime> {
        let DeValue::Datetime(datetime) = self.value.get_ref() else {
            self.wrong("expected a date and time, such as 2030-01-31T12:00:00Z");
            return None;
        };
        Some(*datetime)
    }

    /// Returns a table.
    pub fn table(self) -> Option<Table<'a>> {
        self.table_or("expected a table")
    }

    /// Returns a table. Otherwise adds a problem with this message.
    pub fn table_or(self, message: &str) -> Option<Table<'a>> {
        let DeValue::Table(entries) = self.value.get_ref() else {
            self.wrong(message);
            return None;
        };
        Some(Table::new(self.page, self.value.span(), entries))
    }

    /// Returns the tables of an array with this name.
    pub fn tables(self, name: &str) -> Vec<Table<'a>> {
        let DeValue::Array(values) = self.value.get_ref() else {
            self.wrong(format!("expected [[{name}]] in two pairs of brackets: each of them is one table of many"));
            return Vec::new();
        };
        values.iter().filter_map(|value| Self { value, ..self }.table()).collect()
    }
}
