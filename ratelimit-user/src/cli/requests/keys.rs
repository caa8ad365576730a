//! A rule as a file or options give it.

use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, anyhow};
use toml::Value;

use crate::{
    check::Algorithm,
    config::requests::{json, stored::problem, written::Keys},
};

#[derive(Debug, clap::Args)]
pub(crate) struct RuleOptions {
    /// File with the keys of the rule, as TOML or JSON; - for standard input. Not needed with --limits
    #[arg(required_unless_present = "limits", conflicts_with_all = ["limits", "key", "matches", "algorithm", "burst", "throttle", "shadow", "ipv6_prefix", "clients"])]
    file: Option<PathBuf>,
    /// Rates that all hold, such as 100/h,3/m
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
    #[arg(long)]
    shadow: bool,
    /// Bits of an IPv6 address that count as one client
    #[arg(long, value_name = "BITS")]
    ipv6_prefix: Option<u8>,
    /// Clients that the rule remembers
    #[arg(long, value_name = "N")]
    clients: Option<u32>,
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected ATTRIBUTE=VALUE, such as operation=createURL")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl RuleOptions {
    /// Returns the keys of the rule. Options change only those that they name of a rule that was there before.
    pub(super) fn keys(&self, before: Option<&Keys>) -> Result<Keys> {
        match &self.file {
            Some(path) if path.as_os_str() == "-" => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
                of_text(&text, "standard input")
            }
            Some(path) => {
                let name = path.display().to_string();
                of_text(&fs::read_to_string(path).with_context(|| format!("{name}: cannot be read"))?, &name)
            }
            None => Ok(self.of_options(before)),
        }
    }

    fn of_options(&self, before: Option<&Keys>) -> Keys {
        let list = |all: &[String]| Value::from(all.to_vec());
        let mut keys = before.cloned().unwrap_or_default();
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                keys.insert(name.to_owned(), value);
            }
        };
        add("limits", Some(list(&self.limits)));
        add("key", (!self.key.is_empty()).then(|| list(&self.key)));
        add("algorithm", self.algorithm.clone().map(Value::from));
        add("burst", self.burst.map(Value::from));
        add("throttle", self.throttle.clone().map(Value::from));
        add("shadow", self.shadow.then(|| Value::from(true)));
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

fn of_text(text: &str, name: &str) -> Result<Keys> {
    if text.trim_start().starts_with('{') {
        return json::keys(text.as_bytes()).map_err(|problem| anyhow!("{name}: {problem}"));
    }
    toml::from_str(text).map_err(|error| anyhow!("{name}:{}", problem(text, &error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_toml_or_json() {
        let toml = of_text("limits = [\"3/m\"]\nmatch = { operation = \"a\" }\n", "FILE").unwrap();
        let json = of_text(" {\"limits\": [\"3/m\"], \"match\": {\"operation\": \"a\"}}", "FILE").unwrap();
        assert_eq!(toml, json);
        for (text, expected) in [
            ("limits = [\"3/m\"\nkey = 1", "FILE:2:"),
            ("{\"limits\": null}", "FILE: "),
            ("{\"limits\": [}", "line 1, column 13"),
        ] {
            let error = format!("{:#}", of_text(text, "FILE").unwrap_err());
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        }
    }
}
