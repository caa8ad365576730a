//! A rule as the fields of a form.

use maud::{Markup, html};
use ratelimit_limiter::Algorithm;
use toml::Value;

use crate::{config::written::Keys, serve::console::visit::Form};

/// The fields with their labels, and what they take.
const FIELDS: [(&str, &str, &str); 8] = [
    ("limits", "Limits", "Rates, such as 100/h, 3/m"),
    ("key", "Clients are told apart by", "Attributes, such as ip or user. Empty: all requests are one client"),
    ("match", "Counted requests", "One line for each value, such as operation=createURL. Empty: all requests"),
    ("burst", "Burst", "Requests at once, for a single limit"),
    ("throttle", "Above the limit", "hard, or soft=10%"),
    ("identity-life", "Life of a client", "Such as 150s"),
    ("ipv6-prefix", "Bits of an IPv6 address", "1 to 128, by default 64"),
    ("clients", "Most clients", "64 to 16,777,216"),
];
/// Keys whose value is a list.
const LISTS: [&str; 2] = ["limits", "key"];
/// Keys whose value is a number.
const NUMBERS: [&str; 3] = ["burst", "ipv6-prefix", "clients"];
const ALGORITHM: &str = "algorithm";
const MATCH: &str = "match";
const SHADOW: &str = "shadow";

/// The fields of a rule, with their texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::serve::console) struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// Reads the fields of a form.
    pub(in crate::serve::console) fn of_form(form: &Form) -> Self {
        let names = FIELDS.iter().map(|(name, ..)| *name).chain([ALGORITHM, SHADOW]);
        let texts = names.map(|name| (name, form.get(name).replace("\r\n", "\n").trim().to_owned()));
        Self(texts.filter(|(_, text)| !text.is_empty()).collect())
    }

    /// Returns the fields of a rule. None if a form cannot show all of it.
    pub(in crate::serve::console) fn of_keys(keys: &Keys) -> Option<Self> {
        let keys = plain(keys);
        let mut fields = Vec::new();
        for (key, value) in &keys {
            let known = FIELDS.iter().map(|(name, ..)| *name).chain([ALGORITHM, SHADOW]);
            let name = known.into_iter().find(|name| name == key)?;
            let text = match value {
                Value::Table(values) => {
                    let line = |(name, value): (&String, &Value)| -> Option<String> {
                        let values = value.as_array()?.iter().filter_map(Value::as_str);
                        Some(values.map(|value| format!("{name}={value}\n")).collect())
                    };
                    values.iter().map(line).collect::<Option<String>>()?.trim_end().to_owned()
                }
                Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
                Value::Boolean(_) => "true".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            fields.push((name, text));
        }
        let fields = Self(fields);
        (fields.keys().ok()? == keys).then_some(fields)
    }

    /// Returns the keys of the rule.
    pub(in crate::serve::console) fn keys(&self) -> Result<Keys, String> {
        let mut keys = Keys::new();
        for (name, text) in &self.0 {
            let value = match *name {
                name if LISTS.contains(&name) => Value::Array(text.split(',').map(|part| part.trim().into()).collect()),
                name if NUMBERS.contains(&name) => {
                    text.parse::<i64>().map(Value::Integer).unwrap_or_else(|_| text.as_str().into())
                }
                MATCH => conditions(text)?,
                SHADOW => true.into(),
                _ => text.as_str().into(),
            };
            keys.insert((*name).to_owned(), value);
        }
        Ok(keys)
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(this, _)| *this == name).map_or("", |(_, text)| text)
    }

    /// Returns the fields for a person to fill in.
    pub(in crate::serve::console) fn inputs(&self) -> Markup {
        html! {
            @for (name, label, help) in FIELDS {
                div class="field" {
                    label for=(name) { (label) }
                    @if name == MATCH {
                        textarea id=(name) name=(name) rows="3" aria-describedby={ (name) "-help" } { "\n" (self.get(name)) }
                    } @else {
                        input type="text" id=(name) name=(name) value=(self.get(name)) required[name == "limits"]
                            aria-describedby={ (name) "-help" } autocomplete="off" spellcheck="false";
                    }
                    small id={ (name) "-help" } { (help) }
                }
            }
            div class="field" {
                label for=(ALGORITHM) { "Algorithm" }
                select id=(ALGORITHM) name=(ALGORITHM) {
                    option value="" { "default: " (Algorithm::TokenBucket.name()) }
                    @for algorithm in Algorithm::ALL {
                        option value=(algorithm.name()) selected[algorithm.name() == self.get(ALGORITHM)] { (algorithm.name()) }
                    }
                }
            }
            div class="field" {
                input type="checkbox" id=(SHADOW) name=(SHADOW) value="true" checked[!self.get(SHADOW).is_empty()];
                " " label class="inline" for=(SHADOW) { "In shadow: the rule only tells what it would refuse" }
            }
        }
    }

    /// Returns the fields for the next form.
    pub(in crate::serve::console) fn hidden(&self) -> Markup {
        html! { @for (name, text) in &self.0 { input type="hidden" name=(name) value=(text); } }
    }
}

fn conditions(text: &str) -> Result<Value, String> {
    let mut all = Keys::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=').ok_or("match: expected ATTRIBUTE=VALUE in each line")?;
        let values = all.entry(name.trim().to_owned()).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(values) = values.as_array_mut() {
            values.push(value.trim().into());
        }
    }
    Ok(Value::Table(all))
}

/// Returns the keys of a rule as a form writes them: one value as a list, and nothing that is the default.
fn plain(keys: &Keys) -> Keys {
    let list = |value: &Value| match value {
        Value::String(_) => Value::Array(vec![value.clone()]),
        other => other.clone(),
    };
    let mut plain = keys.clone();
    for key in LISTS {
        if let Some(value) = plain.get_mut(key) {
            *value = list(value);
        }
    }
    if let Some(values) = plain.get_mut(MATCH).and_then(Value::as_table_mut) {
        values.iter_mut().for_each(|(_, value)| *value = list(value));
    }
    if plain.get(SHADOW).is_some_and(|value| value.as_bool() == Some(false) || value.as_str() == Some("off")) {
        plain.remove(SHADOW);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Keys {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_form_shows_all_of_a_rule_and_writes_the_same_rule() {
        for text in [
            "limits = [\"3/m\"]",
            "limits = [\"100/h\", \"3/m\"]\nkey = [\"ip\", \"user\"]\nalgorithm = \"sliding-log\"\nshadow = true",
            "limits = [\"3/m\"]\nburst = 5\nthrottle = \"soft=10%\"\nidentity-life = \"150s\"\nipv6-prefix = 48\nclients = 64",
            "limits = [\"3/m\"]\nmatch = { operation = [\"a\", \"b=c\"], path = [\"/<b>\"] }",
        ] {
            assert_eq!(Fields::of_keys(&keys(text)).unwrap().keys().unwrap(), keys(text), "{text}");
        }
        let short = keys("limits = \"3/m\"\nshadow = false\nmatch = { path = \"/\" }");
        let long = keys("limits = [\"3/m\"]\nmatch = { path = [\"/\"] }");
        assert_eq!(Fields::of_keys(&short).unwrap().keys().unwrap(), long);
    }

    #[test]
    fn a_rule_that_a_form_would_change_has_no_form() {
        for text in [
            "match = { path = \" /\" }",
            "match = { path = \"/a\\n/b\" }",
            "match = { path = [1] }",
            "limits = [\"3/m\"]\nburst = \"5\"",
            "limits = \"3/m, 4/h\"",
            "stop-at-nic = true",
        ] {
            assert_eq!(Fields::of_keys(&keys(text)), None, "{text}");
        }
    }

    #[test]
    fn a_form_leaves_out_what_is_empty() {
        let form = Form::parse(b"limits=3%2Fm&key=+&match=path%3D%2Fa%0D%0Apath%3D%2Fb&shadow=true&csrf=x&name=y");
        let expected = keys("limits = [\"3/m\"]\nmatch = { path = [\"/a\", \"/b\"] }\nshadow = true");
        assert_eq!(Fields::of_form(&form).keys(), Ok(expected));
        let form = Form::parse(b"limits=3%2Fm&match=path");
        assert_eq!(Fields::of_form(&form).keys(), Err("match: expected ATTRIBUTE=VALUE in each line".to_owned()));
    }
}
