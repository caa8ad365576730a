//! What one line says. It is taken whole, or it is refused.

use std::net::IpAddr;

use super::{
    content::LineError,
    firewall,
    item::Item,
    near::is_host,
    words::{Word, excluding, is_false, words},
};
use crate::text::{excerpt::excerpt, prefix::PrefixError};

/// What a line says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) items: Vec<Item>,
    /// Whether the line has nothing else.
    pub(super) is_alone: bool,
    /// Whether a name stands behind the only address, as in a hosts file.
    pub(super) is_named: bool,
    /// Whether the address belongs to no other host.
    pub(super) is_of_hosts: bool,
    /// Whether the name is that of the host itself.
    pub(super) is_own_name: bool,
}

impl Entry {
    pub(super) fn of(item: Item) -> Self {
        Self { items: vec![item], ..Self::default() }
    }
}

/// Words that begin a rule of a filter that refuses a source.
const DENYING: &[&str] = &["ban", "blackhole", "block", "deny", "drop", "reject", "all:"];

/// Words that such a rule can also have before its source.
const OF_RULES: &[&str] = &["access-list", "all", "from", "host", "ip", ":"];

/// Words that such a rule can also have behind its source.
const BEHIND: &[&str] = &["all", "any", "deny", "log", "to", ":", "}"];

/// The highest number in the second column of eMule's lists that refuses a range.
const MOST_LEVEL: u32 = 127;

/// Reads a line without its comment.
///
/// # Errors
///
/// Fails with what is wrong with it.
pub(super) fn read(line: &str) -> Result<Entry, LineError> {
    if let Some(items) = firewall::read(line) {
        return items.map(|items| Entry { items, ..Entry::default() });
    }
    if let Some((name, range)) = line.rsplit_once(':')
        && let Ok(Some(range @ Item::Range(..))) = Item::of(range.trim())
    {
        return of_peers(name, range);
    }
    let all: Vec<Word<'_>> = words(line).collect();
    let starts = |at: usize, begin: &str| {
        let begins = |word: &Word<'_>| word.text.get(..begin.len()).is_some_and(|it| it.eq_ignore_ascii_case(begin));
        all.get(at).is_some_and(begins)
    };
    let is_joined = starts(0, "all:");
    // `ALL : 192.0.2.1` of hosts.deny.
    let is_all = is_joined || all.len() > 1 && all[0].text.eq_ignore_ascii_case("all") && all[1].text == ":";
    let mut items = Vec::with_capacity(all.len());
    for (at, word) in all.iter().enumerate() {
        let text = if at == 0 && is_joined { &word.text[4..] } else { word.text };
        items.push(match Item::of(text) {
            Err(LineError::Near(_)) if is_version(&all, at) && items.iter().any(Option::is_some) => None,
            item => item?,
        });
    }
    let is_item = |at: usize| items.get(at).is_some_and(Option::is_some);
    let Some(first) = items.iter().position(Option::is_some) else { return Err(PrefixError::Address.into()) };
    let last = items.iter().rposition(Option::is_some).unwrap_or(first);
    if let Some(word) = excluding(&all, is_item) {
        return Err(LineError::Excluded(word));
    }
    if let Some(sign) = line.trim_start_matches(['"', '\'']).chars().next().filter(|first| is_sign(*first, is_item(0)))
    {
        return Err(LineError::Sign(sign));
    }
    let is_rule = is_all && first < 3 || lead(&all[..first], all[first].column)?;
    let (middle, behind) = (&all[first..=last], &all[last + 1..]);
    if is_rule && let Some(more) = behind.iter().find(|word| !is_any(BEHIND, word.text)) {
        return Err(LineError::Behind(excerpt(more.text)));
    }
    // `192.0.2.0/24 0;` and `192.0.2.0/24 "";` of nginx.
    if let Some(value) = value(line).filter(|value| value.is_empty() || is_false(value)) {
        return Err(LineError::Excluded(format!("{value};")));
    }
    if behind.iter().any(|word| is_time_of_log(word.text)) {
        return Err(LineError::Log);
    }
    // `192.0.2.1 - 9`
    if behind.first().is_some_and(|word| is_dash(word.text)) && behind.get(1).is_some_and(|word| is_number(word.text)) {
        return Err(LineError::Several);
    }
    if let Some(range) = of_columns(middle, &items[first..=last], behind).filter(|_| first == 0) {
        return Ok(Entry::of(range));
    }
    let found = joined(middle, &items[first..=last])?;
    // `Deny from` has hosts.
    let are_hosts = is_all || is_rule && all[..first].iter().any(|word| word.text.eq_ignore_ascii_case("from"));
    let is_pure = behind.is_empty() && (first == 0 || is_rule) && found.iter().all(Option::is_some);
    let found: Vec<Item> = found.into_iter().map(|item| item.ok_or(LineError::Several)).collect::<Result<_, _>>()?;
    let mut entry = match found.as_slice() {
        [item] => single(*item, all[last], behind)?,
        [Item::Address(one), Item::Address(other)] if !is_pure || !are_hosts && one.is_ipv4() == other.is_ipv4() => {
            Entry::of(Item::pair(*one, *other).ok_or(LineError::Several)?)
        }
        several if is_pure && !several.iter().any(|item| item.is_mask()) && (are_hosts || !has_pair(several)) => {
            Entry { items: found, ..Entry::default() }
        }
        _ => return Err(LineError::Several),
    };
    entry.is_alone = is_pure && !is_rule;
    Ok(entry)
}

/// Returns what a line can say that is not meant. Its words are in no order that is known.
pub(super) fn excluded(line: &str) -> Vec<Item> {
    let is_mark = |it: char| matches!(it, '{' | '}' | '(' | ')' | '=' | '"' | '\'' | '!' | '~' | '^' | '-');
    let line = line.replace(['{', '}', '(', ')', '=', ','], " ");
    let all: Vec<Word<'_>> = words(&line).collect();
    let read = |word: &Word<'_>| {
        let text = word.text.trim_matches(is_mark);
        let text = text.get(..4).filter(|begin| begin.eq_ignore_ascii_case("all:")).map_or(text, |_| &text[4..]);
        Item::of(text).ok().flatten()
    };
    let items: Vec<Option<Item>> = all.iter().map(read).collect();
    let joined = joined(&all, &items).unwrap_or(items);
    let mut found: Vec<Item> = Vec::new();
    for item in joined.into_iter().flatten() {
        match (found.last().copied(), item) {
            (Some(Item::Address(one)), Item::Address(other)) if item.is_mask() => {
                found.pop();
                found.push(Item::pair(one, other).unwrap_or(Item::Address(one)));
            }
            _ => found.push(item),
        }
    }
    found
}

/// Returns the text before the semicolon that ends a line, if it is the only one behind another.
fn value(line: &str) -> Option<&str> {
    let mut words = line.strip_suffix(';')?.split_whitespace();
    let (_, value) = (words.next()?, words.next()?);
    words.next().is_none().then(|| value.trim_matches(['"', '\'']))
}

/// Returns the range of `5.62.56.160,5.62.56.163,US`.
fn of_columns(words: &[Word<'_>], items: &[Option<Item>], behind: &[Word<'_>]) -> Option<Item> {
    let ([first, last], [Some(Item::Address(one)), Some(Item::Address(other))]) = (words, items) else { return None };
    let country = behind.first()?;
    let is_country = country.text.len() == 2 && country.text.bytes().all(|byte| byte.is_ascii_uppercase());
    let are_columns = (first.column, last.column, country.column) == (0, 1, 2);
    Item::range(*one, *other).ok().filter(|_| is_country && are_columns)
}

/// Returns whether a word such as `1.24.0` is a column of its own behind one with the name of a program.
fn is_version(all: &[Word<'_>], at: usize) -> bool {
    let Some([name, version]) = at.checked_sub(1).and_then(|before| all.get(before..=at)) else { return false };
    let is_single = all.get(at + 1).is_none_or(|next| next.column != version.column);
    let numbers = version.text.split('.').filter(|part| part.parse::<u32>().is_ok()).count();
    numbers == 3
        && version.text.split('.').count() == 3
        && is_single
        && name.column + 1 == version.column
        && name.text.starts_with(|first: char| first.is_ascii_alphabetic())
}

/// Returns what one address means with the words behind it.
fn single(item: Item, word: Word<'_>, behind: &[Word<'_>]) -> Result<Entry, LineError> {
    let mut entry = Entry::of(item);
    let Some(next) = behind.first() else { return Ok(entry) };
    let number: Option<u32> = next.text.parse().ok();
    let mut numbers = behind.iter().filter_map(|word| word.text.parse().ok());
    if let (Item::Address(address), Some(length)) = (item, numbers.find(|it| item.can_have(*it))) {
        return Err(LineError::Length(address, length));
    }
    match (item, number) {
        // A range, a level and a name.
        (Item::Range(..), Some(level)) if level > MOST_LEVEL && next.column == word.column + 1 && behind.len() > 1 => {
            return Err(LineError::Excluded(level.to_string()));
        }
        _ => {}
    }
    if let (Item::Address(address), None) = (item, number) {
        let is_local = address.is_loopback() || address.is_unspecified();
        entry.is_own_name = is_local
            && next.column == word.column
            && (next.text.starts_with("localhost") || next.text.starts_with("ip6-"));
        entry.is_named = is_host(next.text);
        entry.is_of_hosts = is_local && entry.is_named;
    }
    Ok(entry)
}

/// Returns whether the words before an address are the beginning of a rule. Other columns can have anything.
fn lead(words: &[Word<'_>], column: usize) -> Result<bool, LineError> {
    let beside: Vec<&str> = words.iter().filter(|word| word.column == column).map(|word| word.text).collect();
    let is_rule = beside.iter().any(|word| is_any(DENYING, word));
    let is_known = |word: &&&str| is_number(word) || is_rule && (is_any(DENYING, word) || is_any(OF_RULES, word));
    match beside.iter().find(|word| !is_known(word)) {
        Some(word) => Err(LineError::Lead(excerpt(word))),
        None => Ok(is_rule),
    }
}

/// Joins the two ends of each range. A word that is no address is none.
fn joined(words: &[Word<'_>], items: &[Option<Item>]) -> Result<Vec<Option<Item>>, LineError> {
    let mut found = Vec::with_capacity(items.len());
    let mut at = 0;
    while let Some(item) = items.get(at) {
        let is_range = words.get(at + 1).is_some_and(|word| is_dash(word.text));
        match (item.and_then(Item::address), items.get(at + 2).copied().flatten().and_then(Item::address)) {
            (Some(first), Some(last)) if is_range => {
                found.push(Some(Item::range(first, last)?));
                at += 3;
            }
            _ => {
                found.push(*item);
                at += 1;
            }
        }
    }
    Ok(found)
}

fn is_dash(word: &str) -> bool {
    matches!(word, "-" | "–" | "—" | ".." | "to")
}

/// Reads a line of PeerGuardian: a name and a range.
fn of_peers(name: &str, range: Item) -> Result<Entry, LineError> {
    let all: Vec<Word<'_>> = words(name).collect();
    for word in &all {
        if Item::of(word.text)?.is_some() {
            return Err(LineError::Several);
        }
    }
    if let Some(word) = excluding(&all, |_| false) {
        return Err(LineError::Excluded(word));
    }
    match name.chars().next().filter(|first| is_sign(*first, false)) {
        Some(sign) => Err(LineError::Sign(sign)),
        None => Ok(Entry::of(range)),
    }
}

/// Returns whether two addresses beside each other can be one range or network.
fn has_pair(items: &[Item]) -> bool {
    items.windows(2).any(|pair| match pair {
        [Item::Address(one), Item::Address(other)] => one != other && Item::pair(*one, *other).is_some(),
        _ => false,
    })
}

/// Returns whether the first character of a line can make it a comment, an exception or a removal.
fn is_sign(first: char, is_item: bool) -> bool {
    !(first.is_alphanumeric() || is_item && matches!(first, '[' | ':') || matches!(first, ',' | ';' | '|'))
}

/// Returns whether a word is a number or a time.
fn is_number(word: &str) -> bool {
    let is_part =
        |character: char| character.is_ascii_digit() || matches!(character, '-' | ':' | '.' | '/' | '+' | 'T' | 'Z');
    word.starts_with(|first: char| first.is_ascii_digit()) && word.chars().all(is_part)
}

/// Returns whether a word begins the time of a request in the log of a web server.
fn is_time_of_log(word: &str) -> bool {
    matches!(word.as_bytes(), [b'[', day, ten, b'/', ..] if day.is_ascii_digit() && ten.is_ascii_digit())
}

fn is_any(all: &[&str], word: &str) -> bool {
    all.iter().any(|other| other.eq_ignore_ascii_case(word))
}

/// Returns what a length that stands beside an address makes of it.
pub(super) fn with_length(address: IpAddr, length: u64) -> Option<Item> {
    Item::network(address, u8::try_from(length).ok()?)
}
