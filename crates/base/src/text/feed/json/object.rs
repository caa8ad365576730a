//! What an object says: by its texts together, and by the keys that exclude it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::{
    content::LineError,
    entry::{self, with_length},
    item::Item,
    words::{excludes_as_key, excludes_as_text, excludes_as_value, includes_as_key, is_false},
};
use crate::text::prefix::{Prefix, PrefixError};

/// The most members of an object that are compared with each other.
pub(super) const MOST_MEMBERS: usize = 64;

/// Keys of texts that are not read: they can tell of any address.
const NOTES: &[&str] =
    &["comment", "description", "details", "link", "message", "note", "notes", "reason", "title", "url"];

/// Keys whose texts are addresses.
const ADDRESSES: &[&str] = &["cidr", "ip", "ip_prefix", "ipaddress", "ipv4", "ipv4prefix", "ipv6", "ipv6prefix"];

/// Keys whose numbers are lengths of prefixes.
const LENGTHS: &[&str] =
    &["bits", "cidr", "len", "length", "mask", "masklen", "netmask", "prefix", "prefixlen", "prefixlength", "subnet"];

/// Keys of the first address of a range, and of the last one.
const ENDS: [(&str, &str); 6] =
    [("start", "end"), ("first", "last"), ("from", "to"), ("begin", "end"), ("low", "high"), ("min", "max")];

/// A value.
pub(super) enum Value {
    Text(String),
    Number(Option<u64>),
    Flag(bool),
    Null,
    /// An array or an object, which has been read.
    Inner,
}

/// The members of an object that matter.
#[derive(Default)]
pub(super) struct Object {
    /// Keys, texts, and what these say.
    pub(super) items: Vec<(String, String, Item)>,
    length: Option<u64>,
    /// Other numbers, which can be lengths.
    numbers: Vec<u64>,
    /// The first text that nearly is an entry.
    pub(super) bad: Option<(String, LineError)>,
    /// What says that the object is not meant.
    pub(super) excluded: Option<String>,
}

impl Object {
    pub(super) fn add(&mut self, key: &str, value: Value) {
        let simple: String = key.chars().filter(|it| *it != '_' && *it != '-').collect();
        let is = |keys: &[&str]| keys.iter().any(|other| other.replace('_', "").eq_ignore_ascii_case(&simple));
        match value {
            Value::Text(text) if is(LENGTHS) && text.parse::<u64>().is_ok() => self.length = text.parse().ok(),
            Value::Text(text)
                if let Ok(number) = text.parse()
                    && self.numbers.len() < MOST_MEMBERS =>
            {
                self.numbers.push(number);
            }
            Value::Text(text) if !is(NOTES) => match entry::read(text.trim()) {
                Ok(entry) => match entry.items.as_slice() {
                    [item] => self.items.push((simple, text, *item)),
                    _ => self.refuse(text, LineError::Several),
                },
                Err(LineError::Prefix(PrefixError::Address)) if !is(ADDRESSES) || text.is_empty() => {}
                Err(error) => self.refuse(text, error),
            },
            Value::Number(number) if is(LENGTHS) => self.length = number,
            Value::Number(Some(number)) if !is(ADDRESSES) && self.numbers.len() < MOST_MEMBERS => {
                self.numbers.push(number);
            }
            Value::Number(number) if is(ADDRESSES) => {
                self.refuse(number.unwrap_or_default().to_string(), LineError::Number);
            }
            _ => {}
        }
    }

    fn refuse(&mut self, text: String, error: LineError) {
        self.bad.get_or_insert((text, error));
    }

    /// Returns what the members say together.
    pub(super) fn judge(&self) -> Result<Vec<Item>, LineError> {
        let items: Vec<Item> = self.items.iter().map(|(_, _, item)| *item).collect();
        let is_numbered = self.items.iter().all(|(key, ..)| key.parse::<u32>().is_ok());
        let several = |is_clear: bool| if is_clear { Ok(items.clone()) } else { Err(LineError::Several) };
        match items.as_slice() {
            [] => Ok(Vec::new()),
            [Item::Address(address)] => match self.length {
                None => match self.numbers.iter().find(|number| items[0].can_have(**number)) {
                    Some(number) => Err(LineError::Length(*address, *number)),
                    None => Ok(items),
                },
                Some(length) => match with_length(*address, length) {
                    Some(network) => Ok(vec![network]),
                    None => Err(PrefixError::Bits(if address.is_ipv4() { 32 } else { 128 }).into()),
                },
            },
            [_] => Ok(items),
            several if let Some(prefix) = self.agreed(several) => Ok(vec![prefix]),
            [Item::Address(one), Item::Address(other)] => {
                self.pair(*one, *other).map(|item| vec![item]).or_else(|error| {
                    several(error == LineError::Several && (is_numbered || one.is_ipv4() != other.is_ipv4()))
                })
            }
            all => several(is_numbered || !has_nested(all) && all.iter().all(|item| item.address().is_none())),
        }
    }

    /// Returns the only prefix, if all else says the same: its address, its mask and its length.
    fn agreed(&self, items: &[Item]) -> Option<Item> {
        let mut prefixes = items.iter().filter(|item| matches!(item, Item::Prefix(_)));
        let (Some(Item::Prefix(prefix)), None) = (prefixes.next(), prefixes.next()) else { return None };
        let parts = [Some(Item::Prefix(*prefix)), Some(Item::Address(prefix.address())), mask(*prefix)];
        let is_same = items.iter().all(|item| parts.contains(&Some(*item)));
        let has_length = self.length.is_none_or(|length| length == u64::from(prefix.bits()));
        (is_same && has_length).then_some(Item::Prefix(*prefix))
    }

    /// Returns what two addresses mean by their keys, or by themselves.
    fn pair(&self, one: IpAddr, other: IpAddr) -> Result<Item, LineError> {
        let ends = |(first, last): (&str, &str)| {
            let at = |end: &str| self.items.iter().position(|(key, ..)| key.to_ascii_lowercase().contains(end));
            Some((at(first)?, at(last)?))
        };
        match ENDS.into_iter().find_map(ends) {
            Some((0, 1)) => Item::range(one, other),
            Some((1, 0)) => Item::range(other, one),
            _ => Item::pair(one, other).ok_or(LineError::Several),
        }
    }
}

/// Returns what a member says that excludes its object.
pub(super) fn excluded_by(key: &str, value: &Value) -> Option<String> {
    let is_set = match value {
        Value::Flag(flag) => *flag,
        Value::Number(number) => *number != Some(0),
        // An address is read as one, and a page or a sentence tells something else.
        Value::Text(text) => !text.is_empty() && !text.contains("://") && !is_false(text),
        Value::Null | Value::Inner => false,
    };
    let is_false = match value {
        Value::Flag(flag) => !flag,
        Value::Number(number) => *number == Some(0),
        Value::Text(text) => is_false(text),
        Value::Null | Value::Inner => false,
    };
    let is_item = |text: &str| matches!(Item::of(text), Ok(Some(_)));
    match value {
        Value::Text(text) if is_item(text) => None,
        _ if is_set && excludes_as_key(key) => Some(key.to_owned()),
        _ if is_false && includes_as_key(key) => Some(format!("{key}: false")),
        Value::Text(text) if excludes_by_text(key, text) => Some(text.clone()),
        _ => None,
    }
}

/// Returns whether the text of a key decides that its object is not meant.
fn excludes_by_text(key: &str, text: &str) -> bool {
    const KEYS: &[&str] = &[
        "action",
        "type",
        "verdict",
        "decision",
        "policy",
        "target",
        "disposition",
        "classification",
        "status",
        "state",
        "reputation",
        "result",
    ];
    let key = key.to_ascii_lowercase();
    let is_verdict = KEYS.iter().any(|other| key.contains(other));
    excludes_as_text(text) || is_verdict && excludes_as_value(text)
}

/// Returns the mask of a prefix as an address.
fn mask(prefix: Prefix) -> Option<Item> {
    let host = |bits: u32| bits.checked_sub(prefix.bits().into());
    Some(Item::Address(match prefix.address() {
        IpAddr::V4(_) => Ipv4Addr::from_bits(u32::MAX.checked_shl(host(32)?).unwrap_or(0)).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(u128::MAX.checked_shl(host(128)?).unwrap_or(0)).into(),
    }))
}

/// Returns whether one item has all addresses of another one.
fn has_nested(items: &[Item]) -> bool {
    items.iter().enumerate().any(|(at, one)| items.iter().skip(at + 1).any(|other| one.has(*other) || other.has(*one)))
}
