//! A rule as options give it.

use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use ratelimit_base::{tables::switch::Switch, text::excerpt::escaped};
use ratelimit_limiter::Algorithm;
use ratelimit_server::config::written::Keys;
use toml::Value;

use super::file;

/// The key that each rule needs.
const LIMITS: &str = "limits";
/// The other keys. Each option with the name of a key sets it.
const OTHERS: [&str; 9] =
    ["key", "match", "algorithm", "burst", "throttle", "shadow", "identity-life", "ipv6-prefix", "clients"];

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct RuleOptions {
    /// File with the whole rule, as TOML or JSON: its keys alone, or the table that `get` prints. - is standard input
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["limits", "key", "matches", "algorithm", "burst", "throttle", "shadow", "identity_life", "ipv6_prefix", "clients", "unset"])]
    file: Option<PathBuf>,
    /// Rates that all hold, such as 100/h,3/m. A new rule needs them
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    limits: Vec<String>,
    /// Attributes whose values tell clients apart
    #[arg(long, value_name = "ATTRIBUTE", value_delimiter = ',', value_parser = attribute)]
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
    #[arg(long, value_name = "TIME", value_parser = life)]
    identity_life: Option<String>,
    /// Bits of an IPv6 address that count as one client
    #[arg(long, value_name = "BITS")]
    ipv6_prefix: Option<u8>,
    /// Clients that the rule remembers
    #[arg(long, value_name = "N")]
    clients: Option<u32>,
    /// Remove these keys, such as burst,match: their defaults hold again
    #[arg(long, value_name = "KEY", value_delimiter = ',', value_parser = removable())]
    unset: Vec<String>,
}

/// Returns a parser of keys. It accepts the one that no rule lacks too, so that the refusal says why.
fn removable() -> PossibleValuesParser {
    let others = OTHERS.iter().map(PossibleValue::new);
    others.chain([PossibleValue::new(LIMITS).hide(true)]).into()
}

fn attribute(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("expected an attribute, such as user: `--unset key` removes the key");
    }
    Ok(text.to_owned())
}

fn life(text: &str) -> Result<String, &'static str> {
    if text == "off" { Err("`--unset identity-life` removes the key") } else { Ok(text.to_owned()) }
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("expected ATTRIBUTE=VALUE, such as operation=createURL")?;
    if value.is_empty() {
        return Err("expected a value after `=`: `--unset match` removes the key, and a file can have an empty value");
    }
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
                file::keys(&text, "standard input", name)
            }
            Some(path) => {
                let shown = path.display().to_string();
                let text = fs::read_to_string(path).with_context(|| format!("{shown}: cannot be read"))?;
                file::keys(&text, &shown, name)
            }
            None if before.is_none() && self.limits.is_empty() => {
                bail!("there is no rule {}: give --limits to create it", escaped(name))
            }
            None => self.of_options(before),
        }
    }

    fn of_options(&self, before: Option<&Keys>) -> Result<Keys> {
        let mut given = self.given();
        let mut keys = before.cloned().unwrap_or_default();
        for key in &self.unset {
            ensure!(key != LIMITS, "--unset {LIMITS}: each rule needs limits: change them with --{LIMITS}");
            ensure!(!given.contains_key(key), "--unset {key} and --{key} exclude each other: give one of them");
            keys.remove(key);
        }
        // A rule without the key is not in shadow either.
        if given.get("shadow") == Some(&Value::from(false)) && !keys.contains_key("shadow") {
            given.remove("shadow");
        }
        keys.extend(given);
        Ok(keys)
    }

    /// Returns the keys that options set.
    fn given(&self) -> Keys {
        let list = |all: &[String]| (!all.is_empty()).then(|| Value::from(all.to_vec()));
        let mut keys = Keys::new();
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                keys.insert(name.to_owned(), value);
            }
        };
        add(LIMITS, list(&self.limits));
        add("key", list(&self.key));
        add("algorithm", self.algorithm.clone().map(Value::from));
        add("burst", self.burst.map(Value::from));
        add("throttle", self.throttle.clone().map(Value::from));
        add("shadow", self.shadow.map(|shadow| Value::from(shadow == Switch::On)));
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

    /// Returns the key that the server wants to be removed, if it is there without an option that sets it.
    pub(super) fn to_remove(&self, problem: &str, before: Option<&Keys>) -> Option<&'static str> {
        let (key, message) = problem.split_once(": ")?;
        let key = OTHERS.into_iter().find(|other| *other == key)?;
        let is_kept = self.file.is_none() && before?.contains_key(key) && !self.given().contains_key(key);
        (is_kept && message.contains("remove this key")).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use ratelimit_server::config::written;

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
            ("--unset burst,shadow --unset match", "burst = 3\nshadow = true\nmatch = { operation = [\"a\"] }\n", ""),
            (
                "--unset burst,burst --limits 1/s",
                "limits = [\"3/m\"]\nkey = [\"user\"]\nburst = 3",
                "limits = [\"1/s\"]\nkey = [\"user\"]",
            ),
            ("--key ip,user --clients 64", "key = [\"user\"]", "key = [\"ip\", \"user\"]\nclients = 64"),
        ] {
            let changed = options(words).keys("a", Some(&keys(before))).unwrap();
            assert_eq!(changed, keys(&before.replacen(old, new, 1)), "{words}");
        }
        // It is so already.
        let rule = keys("limits = [\"3/m\"]");
        for words in ["--shadow=off", "--unset burst,key"] {
            assert_eq!(options(words).keys("a", Some(&rule)).unwrap(), rule);
        }
        assert_eq!(options("--limits 3/m --unset burst").keys("a", None).unwrap(), rule);
    }

    #[test]
    fn a_key_that_is_set_too_or_needed_is_not_removed() {
        let rule = keys("limits = [\"3/m\"]\nburst = 3\nshadow = true");
        for (words, expected) in [
            ("--unset limits", "--unset limits: each rule needs limits: change them with --limits"),
            ("--unset burst --burst 4", "--unset burst and --burst exclude each other: give one of them"),
            ("--unset shadow --shadow=off", "--unset shadow and --shadow exclude each other: give one of them"),
        ] {
            let error = options(words).keys("a", Some(&rule)).unwrap_err().to_string();
            assert_eq!(error, expected);
        }
        let error = Line::try_parse_from(["set", "--unset", "brust"]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("a similar value exists: 'burst'") && !error.contains("limits"), "{error}");
        assert!(Line::try_parse_from(["set", "--unset", "burst", "--file", "-"]).is_err());
    }

    #[test]
    fn the_key_that_a_server_wants_to_be_removed_is_one_that_the_rule_has_already() {
        let rule = keys("limits = [\"3/m\"]\nburst = 3\nipv6-prefix = 48");
        let problem_of = |text: &str| {
            let known = ["ip", "user"].map(str::to_owned);
            written::read("a", &keys(text), &known).unwrap_err().join("; ")
        };
        let problem = &*problem_of("limits = [\"3/m\", \"9/h\"]\nburst = 3");
        let prefix = &*problem_of("limits = \"3/m\"\nkey = \"user\"\nipv6-prefix = 48");
        for (words, problem, expected) in [
            ("--limits 3/m,9/h", problem, Some("burst")),
            ("--limits 3/m,9/h --burst 4", problem, None),
            ("--file -", problem, None),
            ("--limits 3/m,9/h", "burst: 3: too much", None),
            ("--key user", prefix, Some("ipv6-prefix")),
            ("--key user --ipv6-prefix 56", prefix, None),
            ("--limits 3/m,9/h", "clients: 3: remove this key", None),
            ("--limits 3/m,9/h", "limits: remove this key", None),
        ] {
            assert_eq!(options(words).to_remove(problem, Some(&rule)), expected, "{words}: {problem}");
        }
        assert_eq!(options("--limits 3/m,9/h").to_remove(problem, None), None);
    }

    #[test]
    fn an_empty_value_and_the_word_off_are_refused_with_the_option_that_removes_the_key() {
        for words in [["--match", "path="], ["--key", ""], ["--identity-life", "off"]] {
            let error = Line::try_parse_from([&["set"][..], &words].concat()).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("`--unset "), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_new_rule_needs_limits_and_a_value_has_no_comma() {
        let error = options("--shadow=off").keys("a", None).unwrap_err().to_string();
        assert_eq!(error, "there is no rule a: give --limits to create it");
        assert_eq!(options("--limits 3/m").keys("a", None).unwrap(), keys("limits = [\"3/m\"]"));
        assert_eq!(pair("path=/a=b"), Ok(("path".to_owned(), "/a=b".to_owned())));
        assert!(pair("=a").unwrap_err().starts_with("expected ATTRIBUTE=VALUE"));
        assert!(pair("a,b").unwrap_err().starts_with("expected ATTRIBUTE=VALUE"));
        assert!(pair("operation=a,b").unwrap_err().starts_with("a comma does not separate values"));
    }
}
