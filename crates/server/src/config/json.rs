//! The keys of a rule as JSON.

use std::fmt;

use ratelimit_base::text::{excerpt::excerpt, plain};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use toml::Value;

use super::written::Keys;

/// Keys with values. None of them is there twice.
struct Distinct(Keys);

/// A value in which no key is there twice.
struct Any(Value);

struct OfKeys;
struct OfValue;

/// Reads the keys of a rule. No key may be there twice.
///
/// # Errors
///
/// Fails with the place of the first problem, in plain words.
pub fn keys(json: &[u8]) -> Result<Keys, String> {
    serde_json::from_slice(json).map(|Distinct(keys)| keys).map_err(|error| plain::json(&error))
}

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfKeys)
    }
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfValue)
    }
}

impl<'de> Visitor<'de> for OfKeys {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the keys of a rule")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distinct, A::Error> {
        let mut keys = Keys::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value();
            let Any(value) =
                value.map_err(|error: A::Error| Error::custom(format_args!("{}: {error}", excerpt(&name))))?;
            if keys.contains_key(&name) {
                return Err(Error::custom(format_args!("{} is there twice: remove one", excerpt(&name))));
            }
            keys.insert(name, value);
        }
        Ok(Distinct(keys))
    }
}

impl<'de> Visitor<'de> for OfValue {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a number, true or false, a list or an object")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Any, E> {
        let small = i64::try_from(value);
        small.map(|value| Any(value.into())).map_err(|_| Error::custom(format_args!("{value} is too large")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Any, A::Error> {
        let mut values = Vec::new();
        while let Some(Any(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Any(Value::Array(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Any, A::Error> {
        OfKeys.visit_map(map).map(|Distinct(keys)| Any(Value::Table(keys)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_toml_has_them() {
        let keys = keys(br#"{"limits": ["3/m"], "shadow": true, "burst": 7, "match": {"user": ["a", "b"]}}"#).unwrap();
        let toml = "limits = [\"3/m\"]\nshadow = true\nburst = 7\nmatch = { user = [\"a\", \"b\"] }";
        assert_eq!(keys, toml::from_str(toml).unwrap());
    }

    #[test]
    fn a_key_that_is_there_twice_and_other_json_are_refused_with_the_place() {
        for (text, expected) in [
            (r#"{"limits": "3/m", "limits": "9/m"}"#, "line 1, column 34: limits is there twice: remove one"),
            (r#"{"match": {"user": "a", "user": "b"}}"#, "line 1, column 36: match: user is there twice: remove one"),
            (
                r#"{"limits": null}"#,
                "line 1, column 15: limits: expected text, a number, true or false, a list or an object, not null",
            ),
            (r#"["3/m"]"#, "line 1, column 0: expected an object with the keys of a rule, not a list"),
            (r#"{"limits": "3/m""#, "line 1, column 16: the text ends too early"),
        ] {
            assert_eq!(keys(text.as_bytes()).unwrap_err(), expected);
        }
    }
}
