//! Rules of iptables, and entries of ipset, as these programs save them.

use super::{content::LineError, item::Item, words::excludes_as_key};
use crate::text::{excerpt::excerpt, prefix::PrefixError};

/// Options of an entry that change nothing about its addresses. They have a value.
const VALUES: &[&str] = &["timeout", "packets", "bytes", "skbmark", "skbprio", "skbqueue"];

/// An entry of a set of ipset.
#[derive(Debug, PartialEq, Eq)]
pub struct SetEntry {
    /// The set.
    pub set: String,
    /// Its address, prefix or range.
    pub entry: String,
    /// Whether it ends by itself.
    pub ends: bool,
    /// An option that a list cannot have.
    pub wrong: Option<String>,
}

impl SetEntry {
    /// Reads a line such as `add blocked 192.0.2.1 timeout 9 comment "a scanner"`. None if it is none.
    #[must_use]
    pub fn of(line: &str) -> Option<Self> {
        let words = words(line);
        let words = match words.as_slice() {
            ["ipset", rest @ ..] => rest,
            all => all,
        };
        let ["add", set, entry, options @ ..] = words else { return None };
        let mut of = Self { set: (*set).to_owned(), entry: (*entry).to_owned(), ends: false, wrong: None };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match *option {
                "timeout" => of.ends |= options.next().is_some_and(|time| *time != "0"),
                "comment" => drop(options.next()),
                value if VALUES.contains(&value) => drop(options.next()),
                "-exist" | "-!" => {}
                other => of.wrong = of.wrong.or_else(|| Some(excerpt(other))),
            }
        }
        Some(of)
    }
}

/// Reads a rule or an entry. None if the line is neither.
pub(super) fn read(line: &str) -> Option<Result<Vec<Item>, LineError>> {
    if line.starts_with("add ") || line.starts_with("ipset ") {
        return SetEntry::of(line).map(of_set);
    }
    let is_rule = ["-A ", "-I ", "--append ", "iptables ", "ip6tables "].iter().any(|start| line.starts_with(start));
    is_rule.then(|| of_rule(&words(line)))
}

/// The set of ipset that a text has.
#[derive(Debug, Default)]
pub(super) struct Sets {
    set: Option<String>,
    is_created: bool,
}

impl Sets {
    /// Returns whether a line is of a second set. Another set can mean the opposite.
    pub(super) fn has_second(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        let (set, is_new) = match words.strip_prefix(&["ipset"]).unwrap_or(&words) {
            ["create", set, ..] => (*set, true),
            ["add", set, ..] => (*set, false),
            _ => return false,
        };
        let is_second = is_new && self.is_created || *self.set.get_or_insert_with(|| set.to_owned()) != *set;
        self.is_created |= is_new;
        is_second
    }
}

fn of_set(SetEntry { set, entry, wrong, .. }: SetEntry) -> Result<Vec<Item>, LineError> {
    let wrong = wrong.or_else(|| excludes_as_key(&set).then(|| excerpt(&set)));
    match (wrong, Item::of(&entry)?) {
        (Some(wrong), _) => Err(LineError::Excluded(wrong)),
        (None, Some(item)) => Ok(vec![item]),
        // Such as an address with a port.
        (None, None) => Err(PrefixError::Address.into()),
    }
}

fn of_rule(words: &[&str]) -> Result<Vec<Item>, LineError> {
    let words = match words {
        ["iptables" | "ip6tables", rest @ ..] => rest,
        all => all,
    };
    let ["-A" | "-I" | "--append" | "--insert", chain, rest @ ..] = words else { return Err(LineError::Rule) };
    let rest = match rest {
        [number, rest @ ..] if number.parse::<u32>().is_ok() => rest,
        rest => rest,
    };
    match rest {
        ["-s" | "--source" | "--src", source, "-j" | "--jump", "DROP" | "REJECT", end @ ..]
            if !["OUTPUT", "POSTROUTING"].contains(chain) && matches!(end, [] | ["--reject-with", _]) =>
        {
            let several: Result<Vec<_>, _> = source.split(',').map(Item::of).collect();
            let items: Option<Vec<Item>> = several?.into_iter().collect();
            items.ok_or(PrefixError::Address.into())
        }
        _ => match exception(words) {
            Some(word) => Err(LineError::Excluded(excerpt(word))),
            None => Err(LineError::Rule),
        },
    }
}

/// Returns what can make the source of a rule an exception, such as any target that does not refuse it.
fn exception<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut pairs = words.windows(2).filter_map(|pair| match pair {
        ["-j" | "--jump", "DROP" | "REJECT"] => None,
        ["-j" | "--jump" | "-g" | "--goto", target] => Some(*target),
        _ => None,
    });
    pairs.next().or_else(|| words.iter().copied().find(|word| ["!", "-D", "--delete"].contains(word)))
}

/// Returns the words of a line. One in quotes is a single one.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), line.trim());
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}
