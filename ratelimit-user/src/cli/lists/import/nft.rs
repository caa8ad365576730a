//! Named sets of nftables, as `nft --json` writes them.

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::program::{Entries, output};

#[derive(Debug, Deserialize)]
struct Listing {
    nftables: Vec<Object>,
}

/// A part of the listing. Those without a set say which version wrote it.
#[derive(Debug, Deserialize)]
struct Object {
    set: Option<Set>,
}

#[derive(Debug, Deserialize)]
struct Set {
    family: String,
    table: String,
    name: String,
    #[serde(rename = "type")]
    kind: Value,
    /// Elements of other sets can be anything.
    #[serde(default, rename = "elem")]
    elements: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Element {
    Address(String),
    Prefix { prefix: Prefix },
    Range { range: [String; 2] },
    Described { elem: Described },
}

#[derive(Debug, Deserialize)]
struct Prefix {
    addr: String,
    len: u8,
}

/// An element with a comment, a counter or an end.
#[derive(Debug, Deserialize)]
struct Described {
    val: Box<Element>,
    expires: Option<u64>,
}

pub(super) fn read(set: &str, table: Option<&str>) -> Result<Entries> {
    let text = output("nft", &["--json", "list", "sets"], "nftables")?;
    entries(set, table, &text)
}

fn entries(name: &str, table: Option<&str>, listing: &[u8]) -> Result<Entries> {
    let listing: Listing = serde_json::from_slice(listing).context("nft wrote sets that cannot be read")?;
    let all: Vec<Set> = listing.nftables.into_iter().filter_map(|object| object.set).collect();
    let is_in = |set: &&Set| table.is_none_or(|table| table == place(set));
    let found: Vec<&Set> = all.iter().filter(|set| set.name == name).filter(is_in).collect();
    let set = match found.as_slice() {
        [set] => set,
        [] => {
            let mut names: Vec<_> = all.iter().map(|set| format!("{} in \"{}\"", set.name, place(set))).collect();
            names.truncate(8);
            let others = match names.as_slice() {
                [] => "and no other named set".to_owned(),
                names => format!("but {}", names.join(", ")),
            };
            let of_table = table.map_or_else(String::new, |table| format!(" in the table \"{table}\""));
            bail!("nftables has no set {name}{of_table}, {others}");
        }
        several => {
            let tables: Vec<_> = several.iter().map(|set| format!("--table \"{}\"", place(set))).collect();
            bail!("several tables have a set {name}: give {}", tables.join(" or "));
        }
    };
    if !is_of_addresses(&set.kind) {
        bail!("{name} has the type {}, and a list takes sets of addresses only", set.kind);
    }
    let mut entries = Entries { text: String::new(), timed: 0 };
    for element in &set.elements {
        let known = Element::deserialize(element);
        add(&known.with_context(|| format!("{name} has an element that cannot be read: {element}"))?, &mut entries);
    }
    Ok(entries)
}

/// Returns whether a type is that of addresses. Later versions write the expression that a set was made with.
fn is_of_addresses(kind: &Value) -> bool {
    let payload = &kind["typeof"]["payload"];
    let is = |value: &Value, words: [&str; 2]| words.iter().any(|word| value == word);
    is(kind, ["ipv4_addr", "ipv6_addr"])
        || is(&payload["protocol"], ["ip", "ip6"]) && is(&payload["field"], ["saddr", "daddr"])
}

fn place(set: &Set) -> String {
    format!("{} {}", set.family, set.table)
}

fn add(element: &Element, entries: &mut Entries) {
    let line = match element {
        Element::Address(address) => address.clone(),
        Element::Prefix { prefix: Prefix { addr, len } } => format!("{addr}/{len}"),
        Element::Range { range: [first, last] } => format!("{first}-{last}"),
        Element::Described { elem } => {
            entries.timed += usize::from(elem.expires.is_some());
            return add(&elem.val, entries);
        }
    };
    entries.text += &line;
    entries.text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_found_by_its_name_and_table() {
        let set = |table: &str, kind: &str| {
            format!(
                "{{\"set\": {{\"family\": \"inet\", \"table\": \"{table}\", \"name\": \"bad\", \"type\": {kind}}}}}"
            )
        };
        let listing = |sets: &[String]| format!("{{\"nftables\": [{{\"metainfo\": {{}}}}, {}]}}", sets.join(","));
        let two = listing(&[set("a", "\"ipv4_addr\""), set("b", "[\"ipv4_addr\", \"inet_service\"]")]);
        let refused = |name: &str, table| entries(name, table, two.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            refused("bad", None),
            "several tables have a set bad: give --table \"inet a\" or --table \"inet b\""
        );
        assert!(refused("bad", Some("inet b")).contains("has the type [\"ipv4_addr\",\"inet_service\"]"));
        assert!(refused("other", None).contains("no set other, but bad in \"inet a\", bad in \"inet b\""));
        assert_eq!(entries("bad", Some("inet a"), two.as_bytes()).unwrap().text, "");
        assert!(entries("bad", None, b"{}").is_err());
    }

    #[test]
    fn only_the_elements_of_the_set_are_read() {
        let set = |name: &str, kind: &str, elements: &str| {
            format!(
                "{{\"set\": {{\"family\": \"inet\", \"table\": \"a\", \"name\": \"{name}\", \"type\": {kind}, \
                 \"elem\": [{elements}]}}}}"
            )
        };
        let sets = [
            set("ports", "\"inet_service\"", "22, {\"range\": [80, 90]}"),
            set("marks", "\"mark\"", "5"),
            set("both", "[\"ipv4_addr\", \"inet_service\"]", "{\"concat\": [\"192.0.2.1\", 80]}"),
            set(
                "want",
                "\"ipv4_addr\"",
                "\"203.0.113.7\", {\"elem\": {\"val\": {\"range\": [\"192.0.2.1\", \"192.0.2.9\"]}}}",
            ),
            set("of", "{\"typeof\": {\"payload\": {\"protocol\": \"ip6\", \"field\": \"saddr\"}}}", "\"2001:db8::1\""),
            set("odd", "\"ipv4_addr\"", "{\"concat\": [1]}"),
        ];
        let listing = format!("{{\"nftables\": [{}]}}", sets.join(","));
        let read = |name: &str| entries(name, None, listing.as_bytes()).map(|entries| entries.text);
        assert_eq!(read("want").unwrap(), "203.0.113.7\n192.0.2.1-192.0.2.9\n");
        assert_eq!(read("of").unwrap(), "2001:db8::1\n");
        for name in ["ports", "marks", "both"] {
            assert!(read(name).unwrap_err().to_string().contains("a list takes sets of addresses"), "{name}");
        }
        assert!(read("odd").unwrap_err().to_string().contains("odd has an element that cannot be read: {\"concat\""));
    }
}
