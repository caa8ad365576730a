//! What a command says about usage that is not there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use ratelimit_base::text::excerpt::{escaped, excerpt};
use ratelimit_server::usage::Pair;

use super::place::Place;

/// More rules than a server has at a time.
pub(super) const RULES: u32 = 2_000;
/// Names in a message.
const SHOWN: usize = 20;
/// How far a message proposes to look back.
const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Fails if no client can have these attributes.
pub(super) fn expect_once(client: &[Pair]) -> Result<()> {
    let mut names = BTreeSet::new();
    for name in client.iter().map(Pair::name) {
        ensure!(names.insert(name), "{} is there twice: a client has one value of each attribute", excerpt(name));
    }
    Ok(())
}

/// Fails if no client has these attributes, or no rule has this name. `known` are the names of rules with usage, each with
/// those of its clients' attributes.
pub(super) fn expect(client: &[Pair], rule: Option<&str>, known: &BTreeMap<String, BTreeSet<String>>) -> Result<()> {
    let Some(rule) = rule else {
        return expect_attributes(client, None, &known.values().flatten().cloned().collect());
    };
    expect_rule(rule, &known.keys().cloned().collect::<Vec<_>>())?;
    expect_attributes(client, Some(rule), known.get(rule).unwrap_or(&BTreeSet::new()))
}

/// Fails if a rule has no usage of any client. `known` are the rules that have.
pub(super) fn expect_rule(rule: &str, known: &[String]) -> Result<()> {
    if known.iter().any(|name| name == rule) || known.len() >= RULES as usize {
        return Ok(());
    }
    bail!("--rule: there is no usage under the rule {}: rules with usage are {}", excerpt(rule), first(known.iter()));
}

/// Fails if no client has one of these attributes. `known` are those of all clients, or of those under the rule.
pub(super) fn expect_attributes(client: &[Pair], rule: Option<&str>, known: &BTreeSet<String>) -> Result<()> {
    // Without any usage, nothing is wrong with the attributes.
    if known.is_empty() && rule.is_none() {
        return Ok(());
    }
    let Some(name) = client.iter().map(Pair::name).find(|name| !known.contains(*name)) else { return Ok(()) };
    let under = rule.map(|rule| format!(" under the rule {}", excerpt(rule))).unwrap_or_default();
    bail!("no client{under} has the attribute {}: attributes with usage are {}", excerpt(name), first(known.iter()));
}

/// Returns that nothing is known about a client since an hour, and what to try.
pub(super) fn nothing_known(client: &[Pair], begin: &str, since: Duration, place: &Place) -> String {
    let client: Vec<_> = client.iter().map(Pair::to_string).collect();
    let earlier = if since < MONTH { "earlier: --since 30d; " } else { "" };
    let place = escaped(&place.to_string());
    format!("{}: nothing known since {begin} ({earlier}clients: `ratelimit usage {place}`)", client.join(" "))
}

/// Returns the first names, and how many others there are.
fn first<'a>(mut names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let shown: Vec<_> = names.by_ref().take(SHOWN).map(|name| escaped(name)).collect();
    match (shown.is_empty(), names.len()) {
        (true, _) => "none".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(words: &str) -> Vec<Pair> {
        words.split(' ').map(|word| word.parse().unwrap()).collect()
    }

    fn names(words: &str) -> BTreeSet<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn an_attribute_that_no_client_has_is_told_with_those_that_clients_have() {
        for (client, rule, known, expected) in [
            ("usr=17", None, "user ip", Some("no client has the attribute usr: attributes with usage are ip, user")),
            ("user=17 usr=1", None, "user", Some("no client has the attribute usr: attributes with usage are user")),
            (
                "user=17",
                Some("all"),
                "",
                Some("no client under the rule all has the attribute user: attributes with usage are none"),
            ),
            ("user=17", Some("all"), "user", None),
            ("user=17", None, "", None),
        ] {
            let error = expect_attributes(&pairs(client), rule, &names(known)).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), expected);
        }
    }

    #[test]
    fn no_client_has_two_values_of_an_attribute() {
        assert!(expect_once(&pairs("user=17 ip=192.0.2.1")).is_ok());
        let error = expect_once(&pairs("user=17 user=18")).unwrap_err().to_string();
        assert_eq!(error, "user is there twice: a client has one value of each attribute");
    }

    #[test]
    fn a_message_names_only_some_of_many_and_escapes_them() {
        let many: Vec<_> = (0..25).map(|number| format!("{number}\u{1b}")).collect();
        let text = first(many.iter());
        assert!(text.starts_with("0\\u{1b}, 1") && text.ends_with("19\\u{1b} and 5 more"), "{text}");
        assert_eq!(first([].iter()), "none");
    }
}
