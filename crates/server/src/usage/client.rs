//! Clients as the file has them, as people read them, and as people ask for them.

use std::{fmt, net::IpAddr, str::FromStr};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_limiter::ADDRESS;
use ring::digest::{SHA256, digest};

/// The attribute whose values are secrets. The file has only their hashes.
const SECRET: &str = "key";
/// The longest value that is stored as it is, in bytes of JSON.
const LONGEST: usize = 128;
/// What remains of a longer one, before its hash. With the hash, it is longer than [`LONGEST`], so it can be no other value.
const KEPT: usize = 96;
/// The most bytes of a client. With the rule, memory and the file have that twice or less for each row.
const CLIENT: usize = 512;
/// The name of what stands for further attributes of a longer client: a hash of all of them.
const FURTHER: &str = "…";
/// Bytes of a hash.
const HASH: usize = 16;

/// The attributes of a client with their values, in the order of the rule's key.
pub type Pairs = Vec<(String, String)>;

/// Returns a client as the file has it: its pairs as JSON.
pub(super) fn stored<'a>(pairs: impl Iterator<Item = (&'a str, impl AsRef<str>)>) -> String {
    let one = |(name, value): (&str, _)| serde_json::to_string(&(name, value)).unwrap_or_default();
    let all = |pairs: &[String]| format!("[{}]", pairs.join(","));
    let mut pairs: Vec<_> = pairs.map(|(name, value)| one((name, bounded(name, value.as_ref())))).collect();
    let stored = all(&pairs);
    if stored.len() <= CLIENT {
        return stored;
    }
    let further = one((FURTHER, hash(&stored)));
    // Each has a comma behind it.
    let mut room = CLIENT - further.len() - 2;
    let kept = pairs.iter().map_while(|pair| {
        room = room.checked_sub(pair.len() + 1)?;
        Some(())
    });
    let kept = kept.count();
    pairs.truncate(kept);
    pairs.push(further);
    all(&pairs)
}

/// Returns a client as a log may have it: without secrets, and of bounded length.
pub fn label<'a>(pairs: impl Iterator<Item = (&'a str, impl AsRef<str>)>) -> String {
    text(&pairs.map(|(name, value)| (name.to_owned(), bounded(name, value.as_ref()))).collect::<Vec<_>>())
}

/// Returns a value of bounded length. Two different values stay different, except with the chance of a collision of
/// hashes.
fn bounded(name: &str, value: &str) -> String {
    let is_secret = name == SECRET;
    if !is_secret && value.chars().map(size).sum::<usize>() <= LONGEST {
        return value.to_owned();
    }
    let mut bytes = 0;
    let is_kept = |char: &char| {
        let has_room = bytes < KEPT;
        bytes += size(*char);
        has_room
    };
    let kept: String = if is_secret { String::new() } else { value.chars().take_while(is_kept).collect() };
    format!("{kept}…{}", hash(value))
}

fn hash(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().iter().take(HASH).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the most bytes that a character takes in JSON.
fn size(char: char) -> usize {
    match char {
        '"' | '\\' => 2,
        char if char.is_control() => 6,
        char => char.len_utf8(),
    }
}

/// Returns a client as people read it: `user=17 operation=createURL`. Values that look like something else are quoted.
#[must_use]
pub fn text(pairs: &[(String, String)]) -> String {
    if pairs.is_empty() {
        return "all".to_owned();
    }
    let is_plain = |char: char| char.is_alphanumeric() || "-_.:/@+%,~…=?&#*!$".contains(char);
    let pair = |(name, value): &(String, String)| match value {
        value if !value.is_empty() && value.chars().all(is_plain) => format!("{name}={value}"),
        value => format!("{name}={value:?}"),
    };
    pairs.iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// An attribute of a client, as somebody asks for it: `user=17`, or `ip=192.0.2.0/24`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    name: String,
    value: String,
    /// The value if it is an address or a prefix.
    prefix: Option<Prefix>,
}

impl FromStr for Pair {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=VALUE, such as user=17")?;
        let prefix =
            (name == ADDRESS).then(|| prefix(value).ok_or("expected an address or a prefix after ip=")).transpose()?;
        Ok(Self { name: name.to_owned(), value: value.to_owned(), prefix })
    }
}

impl Pair {
    /// Returns the name of the attribute.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns text that each client of this kind has in the file.
    pub(super) fn part(&self) -> String {
        format!("[\"{}\",", self.name)
    }

    /// Returns longer text that each client with this attribute has in the file, if it can be told.
    pub(super) fn whole(&self) -> String {
        let is_stored = self.prefix.is_none() && bounded(&self.name, &self.value) == self.value;
        match serde_json::to_string(&[&self.name, &self.value]) {
            Ok(whole) if is_stored => whole,
            _ => self.part(),
        }
    }

    /// Returns whether a client has this attribute.
    pub(super) fn is_of(&self, client: &[(String, String)]) -> bool {
        let Some((_, stored)) = client.iter().find(|(name, _)| *name == self.name) else { return false };
        match self.prefix {
            Some(wanted) => prefix(stored).is_some_and(|stored| wanted.contains(&stored) || stored.contains(&wanted)),
            // What people copy from the output may be shortened already.
            None => *stored == self.value || *stored == bounded(&self.name, &self.value),
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&[(self.name.clone(), self.value.clone())]))
    }
}

fn prefix(text: &str) -> Option<Prefix> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(Prefix::host(address.to_canonical())),
        Err(_) => text.parse().ok(),
    }
}
