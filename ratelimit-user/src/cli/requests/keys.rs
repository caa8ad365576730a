//! A rule as a file or options give it.

use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, anyhow, bail};
use toml::Value;

use crate::{
    check::Algorithm,
    config::requests::{json, stored::problem, written::Keys},
    settings::Switch,
    text::excerpt::{escaped, excerpt},
};

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct RuleOptions {
    /// File with the whole rule, as TOML or JSON: its keys alone, or the table that `get` prints. - is standard input
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["limits", "key", "matches", "algorithm", "burst", "throttle", "shadow", "identity_life", "ipv6_prefix", "clients"])]
    file: Option<PathBuf>,
    /// Rates that all hold, such as 100/h,3/m. A new rule needs them
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    limits: Vec<String>,
    /// Attributes whose values tell clients apart
    #[arg(long, value_name = "ATTRIBUTE", value_delimiter = ',')]
    key: Vec<String>,
    /// Count only requests with this value of an attribute; several values of one attribute are possible
    #[arg(long = "match", value_name = "ATTRIBUTE=VALUE", value_parser = pair)]
    matches: Vec<(String, String)>,
    /// How requests are counted
    #[arg(long, value_parser = Algorithm::ALL.map(Algorithm::name))]
    algorithm: Option<String>,
    /// Requests that may come at once
    #[arg(long, value_name = "N")]
    burst: Option<u32>,
    /// What happens above the limits: hard, or soft=10%
    #[arg(long)]
    throttle: Option<String>,
    /// Only tell what the rule would refuse
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    shadow: Option<Switch>,
    /// Time after which a client without a request begins with its whole limit, such as 150s
    #[arg(long, value_name = "TIME")]
    identity_life: Option<String>,
    /// Bits of an IPv6 address that count as one client
    #[arg(long, value_name = "BITS")]
    ipv6_prefix: Option<u8>,
    /// Clients that the rule remembers
    #[arg(long, value_name = "N")]
    clients: Option<u32>,
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected ATTRIBUTE=VALUE, such as operation=createURL")?;
    if value.contains(',') {
        return Err(
            "a comma does not separate values: give --match for each value, or a file if the value has a comma",
        );
    }
    Ok((name.to_owned(), value.to_owned()))
}

impl RuleOptions {
    /// Returns the keys of the rule with this name. Options change only those that they name of a rule that was there before.
    pub(super) fn keys(&self, name: &str, before: Option<&Keys>) -> Result<Keys> {
        match &self.file {
            Some(path) if path.as_os_str() == "-" => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
                of_text(&text, "standard input", name)
            }
            Some(path) => {
                let file = path.display().to_string();
                of_text(&fs::read_to_string(path).with_context(|| format!("{file}: cannot be read"))?, &file, name)
            }
            None if before.is_none() && self.limits.is_empty() => {
                bail!("there is no rule {}: give --limits to create it", escaped(name))
            }
            None => Ok(self.of_options(before)),
        }
    }

    fn of_options(&self, before: Option<&Keys>) -> Keys {
        let list = |all: &[String]| (!all.is_empty()).then(|| Value::from(all.to_vec()));
        let mut keys = before.cloned().unwrap_or_default();
        // A rule without the key is not in shadow either.
        let shadow = self.shadow.map(|shadow| shadow == Switch::On).filter(|on| *on || keys.contains_key("shadow"));
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                keys.insert(name.to_owned(), value);
            }
        };
        add("limits", list(&self.limits));
        add("key", list(&self.key));
        add("algorithm", self.algorithm.clone().map(Value::from));
        add("burst", self.burst.map(Value::from));
        add("throttle", self.throttle.clone().map(Value::from));
        add("shadow", shadow.map(Value::from));
        add("identity-life", self.identity_life.clone().map(Value::from));
        add("ipv6-prefix", self.ipv6_prefix.map(|bits| Value::from(u32::from(bits))));
        add("clients", self.clients.map(Value::from));
        let mut matches = Keys::new();
        for (name, value) in &self.matches {
            let values = matches.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Some(values) = values.as_array_mut() {
                values.push(Value::from(value.as_str()));
            }
        }
        add("match", (!matches.is_empty()).then(|| Value::from(matches)));
        keys
    }
}

/// Reads the keys of the rule with this name: alone, or in a table `[[check]]`.
fn of_text(text: &str, file: &str, name: &str) -> Result<Keys> {
    let mut keys: Keys = if text.trim_start().starts_with('{') {
        json::keys(text.as_bytes()).map_err(|problem| anyhow!("{file}: {problem}"))?
    } else {
        toml::from_str(text).map_err(|error| anyhow!("{file}:{}", problem(text, &error)))?
    };
    let Some(tables) = keys.remove("check") else { return named(keys, file, name) };
    if let Some(other) = keys.keys().next() {
        bail!("{file}: {}: remove this key: beside a table [[check]], nothing is read", excerpt(other));
    }
    let Value::Array(tables) = tables else { bail!("{file}: check: expected a table [[check]]") };
    let is_this = |table: &&Value| table.get("name").and_then(Value::as_str) == Some(name);
    let table = match &tables[..] {
        [one] => Some(one),
        all => all.iter().find(is_this),
    };
    match table {
        Some(Value::Table(keys)) => named(keys.clone(), file, name),
        Some(_) => bail!("{file}: check: expected a table [[check]]"),
        None => bail!("{file}: no table [[check]] has the name {}", excerpt(name)),
    }
}

/// Takes the name of a rule from its keys, which need not be there.
fn named(mut keys: Keys, file: &str, name: &str) -> Result<Keys> {
    match keys.remove("name") {
        Some(other) if other.as_str() != Some(name) => {
            let (other, name) = (excerpt(&other.to_string()), excerpt(name));
            bail!("{file}: the rule has the name {other}, and the command says {name}: change one of them")
        }
        _ => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::requests::written;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        rule: RuleOptions,
    }

    fn options(words: &str) -> RuleOptions {
        Line::try_parse_from(["set"].into_iter().chain(words.split(' '))).unwrap().rule
    }

    fn keys(text: &str) -> Keys {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn options_change_only_the_keys_that_they_name() {
        let before =
            "limits = [\"3/m\"]\nkey = [\"user\"]\nburst = 3\nshadow = true\nmatch = { operation = [\"a\"] }\n";
        for (words, old, new) in [
            ("--shadow=off", "shadow = true", "shadow = false"),
            ("--shadow", "", ""),
            ("--burst 2", "burst = 3", "burst = 2"),
            ("--limits 1/s,9/m", "[\"3/m\"]", "[\"1/s\", \"9/m\"]"),
            ("--match operation=b --match operation=c", "[\"a\"]", "[\"b\", \"c\"]"),
            ("--identity-life 150s", "burst = 3", "burst = 3\nidentity-life = \"150s\""),
            ("--key ip,user --clients 64", "key = [\"user\"]", "key = [\"ip\", \"user\"]\nclients = 64"),
        ] {
            let changed = options(words).keys("a", Some(&keys(before))).unwrap();
            assert_eq!(changed, keys(&before.replacen(old, new, 1)), "{words}");
        }
        // It is so already.
        let rule = keys("limits = [\"3/m\"]");
        assert_eq!(options("--shadow=off").keys("a", Some(&rule)).unwrap(), rule);
    }

    #[test]
    fn a_new_rule_needs_limits_and_a_value_has_no_comma() {
        let error = options("--shadow=off").keys("a", None).unwrap_err().to_string();
        assert_eq!(error, "there is no rule a: give --limits to create it");
        assert_eq!(options("--limits 3/m").keys("a", None).unwrap(), keys("limits = [\"3/m\"]"));
        assert_eq!(pair("path=/a=b"), Ok(("path".to_owned(), "/a=b".to_owned())));
        assert!(pair("a,b").unwrap_err().starts_with("expected ATTRIBUTE=VALUE"));
        assert!(pair("operation=a,b").unwrap_err().starts_with("a comma does not separate values"));
    }

    #[test]
    fn a_file_is_toml_or_json_with_keys_alone_or_in_a_table() {
        let alone = keys("limits = [\"3/m\"]\nmatch = { operation = \"a\" }\n");
        let lines = written::write("a", &alone);
        for text in [
            "limits = [\"3/m\"]\nmatch = { operation = \"a\" }\n",
            " {\"limits\": [\"3/m\"], \"match\": {\"operation\": \"a\"}}",
            &lines,
            &format!("# a: version 2\n[[check]]\n{lines}"),
            &format!("[[check]]\nname = \"b\"\nlimits = \"1/s\"\n[[check]]\n{lines}"),
        ] {
            assert_eq!(of_text(text, "FILE", "a").unwrap(), alone, "{text}");
        }
        for (text, expected) in [
            ("limits = [\"3/m\"\nkey = 1", "FILE:2:"),
            ("{\"limits\": null}", "FILE: "),
            ("{\"limits\": [}", "line 1, column 13"),
            ("name = \"b\"\n", "FILE: the rule has the name \"b\", and the command says a: change one of them"),
            ("[[check]]\nname = \"b\"\n", "the rule has the name \"b\""),
            ("[[check]]\nname = \"b\"\n[[check]]\n", "FILE: no table [[check]] has the name a"),
            ("key = \"ip\"\n[[check]]\n", "FILE: key: remove this key: beside a table [[check]], nothing is read"),
            ("[check]\n", "FILE: check: expected a table [[check]]"),
            ("check = [1]\n", "FILE: check: expected a table [[check]]"),
        ] {
            let error = format!("{:#}", of_text(text, "FILE", "a").unwrap_err());
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        }
    }
}
