//! One table `[[check]]`: a rule.

use std::{str::FromStr, time::Duration};

use clap::ValueEnum;
use ratelimit_base::{
    tables::{
        options,
        switch::Switch,
        table::{Table, nearest},
    },
    text::{excerpt::message, request_rate::RequestRate, throttle, units},
};
use ratelimit_limiter::{ADDRESS, Algorithm, Limit, LimitError, Rule, Throttle};

use super::name::RuleName;

/// The most attributes by which a rule counts.
const MOST_KEYS: usize = 32;
/// Keys of a rule that are no options.
const OTHERS: [&str; 1] = ["match"];

#[derive(Debug, clap::Args)]
struct CheckOptions {
    #[arg(long)]
    name: RuleName,
    #[arg(long)]
    key: Vec<String>,
    #[arg(long, required = true)]
    limits: Vec<RequestRate>,
    #[arg(long, value_enum, default_value = "token-bucket")]
    algorithm: AlgorithmName,
    #[arg(long)]
    burst: Option<u64>,
    #[arg(long, default_value = "hard")]
    throttle: ThrottleName,
    #[arg(long, value_enum, default_value = "off")]
    shadow: Switch,
    #[arg(long, value_enum, default_value = "off")]
    stop_at_nic: Switch,
    #[arg(long, value_parser = units::duration)]
    identity_life: Option<Duration>,
    #[arg(long, default_value = "64", value_parser = clap::value_parser!(u8).range(1..=128))]
    ipv6_prefix: u8,
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=16_777_216))]
    clients: Option<u32>,
}

/// What happens above the limits. Elastic limits need a load, which the server does not know.
#[derive(Debug, Clone, Copy)]
struct ThrottleName(Throttle);

impl FromStr for ThrottleName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(throttle::Throttle::Hard) => Ok(Self(Throttle::Hard)),
            Ok(throttle::Throttle::Soft(percent)) => Ok(Self(Throttle::Soft(percent))),
            Ok(throttle::Throttle::Elastic) => Err("the server does not know its load: expected hard, or soft=10%"),
            Err(_) => Err("expected hard, or soft with a share from 1% to 100%, such as soft=10%"),
        }
    }
}

/// The algorithms by their names in a file.
#[derive(Debug, Clone, Copy)]
struct AlgorithmName(Algorithm);

impl ValueEnum for AlgorithmName {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [AlgorithmName; Algorithm::ALL.len()] = {
            let mut all = [AlgorithmName(Algorithm::TokenBucket); Algorithm::ALL.len()];
            let mut number = 0;
            while number < all.len() {
                all[number] = AlgorithmName(Algorithm::ALL[number]);
                number += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

/// Reads a rule, which may use these attributes.
pub(super) fn rule(table: &Table<'_>, attributes: &[String]) -> Option<Rule> {
    let options = options::read::<CheckOptions>(table, &OTHERS);
    let values = values(table, attributes);
    let CheckOptions {
        name,
        key,
        limits,
        algorithm,
        burst,
        throttle,
        shadow,
        stop_at_nic,
        identity_life,
        ipv6_prefix,
        clients,
    } = options?;
    // An option takes other values too, but then the list of rules would leave the rule out.
    table.get("name")?.text()?;
    let unknown = |name: &String| !attributes.contains(name);
    if let (Some(name), Some(value)) = (key.iter().find(|name| unknown(name)), table.get("key")) {
        value.wrong(unknown_attribute(name, attributes));
        return None;
    }
    let (RuleName(name), AlgorithmName(algorithm), ThrottleName(throttle), values) =
        (name, algorithm, throttle, values?);
    let wrong = |key: &str, message: String| {
        table.get(key).map_or_else(|| table.wrong(&message), |value| value.wrong(&message));
    };
    if key.len() > MOST_KEYS || (1..key.len()).any(|index| key[..index].contains(&key[index])) {
        wrong("key", format!("expected up to {MOST_KEYS} attributes, each of them once"));
        return None;
    }
    if table.get("ipv6-prefix").is_some() && !key.iter().any(|name| name == ADDRESS) {
        wrong("ipv6-prefix", format!("it needs the attribute {ADDRESS} in `key`: add it there, or remove this key"));
        return None;
    }
    if burst.is_some() && limits.len() > 1 {
        wrong("burst", "several limits have different bursts: remove this key, or write two rules".to_owned());
        return None;
    }
    let mut all = Vec::new();
    for RequestRate(rate) in limits {
        match Limit::new(rate, burst, algorithm) {
            Ok(limit) => all.push(limit),
            Err(error) => {
                let is_of_burst =
                    matches!(error, LimitError::NoBurst | LimitError::Burst(_) | LimitError::BurstOfWindow(_));
                wrong(if is_of_burst { "burst" } else { "limits" }, format!("{}: {error}", RequestRate(rate)));
                return None;
            }
        }
    }
    let rule = Rule::new(name, all).map_err(|error| wrong("limits", error.to_string())).ok()?;
    let rule = rule.with_throttle(throttle).map_err(|error| wrong("throttle", error.to_string())).ok()?;
    let rule = values.into_iter().fold(rule, |rule, (name, values)| rule.with_values(name, values));
    let rule = rule.by(key).in_shadow(shadow == Switch::On).with_ipv6_prefix(ipv6_prefix);
    let rule = rule.with_stop(stop_at_nic == Switch::On);
    let rule = match identity_life {
        Some(life) => rule.with_identity_life(life),
        None => rule,
    };
    Some(match clients {
        Some(clients) => rule.with_clients(clients as usize),
        None => rule,
    })
}

/// Reads the key `match`: one value or a list for each attribute.
fn values(table: &Table<'_>, attributes: &[String]) -> Option<Vec<(String, Vec<String>)>> {
    let Some(table) = table.get("match") else { return Some(Vec::new()) };
    let mut all = Some(Vec::new());
    let table = table.table()?;
    for (name, value) in table.each() {
        let text: &str = name.get_ref();
        if !attributes.iter().any(|known| known == text) {
            table.wrong_key(name, unknown_attribute(text, attributes));
            all = None;
            continue;
        }
        match (value.words(), &mut all) {
            (Some(words), _) if words.is_empty() => {
                table.wrong_key(name, "the list is empty: add a value, or remove this attribute");
                all = None;
            }
            (Some(words), Some(all)) => all.push((text.to_owned(), words)),
            _ => all = None,
        }
    }
    all
}

fn unknown_attribute(name: &str, attributes: &[String]) -> String {
    match nearest(name, attributes.iter().map(String::as_str)) {
        Some(nearest) => format!("unknown attribute: did you mean {nearest}?"),
        None => {
            let known = message(&attributes.join(", "));
            format!("unknown attribute: expected {known}, or one that `attributes` in [serve] names")
        }
    }
}
