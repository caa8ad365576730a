//! Fields of questions as JSON. A key that is there twice is refused, as the server and the caller could mean different
//! ones.

use std::{collections::btree_map::Entry, fmt};

use ratelimit_base::text::{
    excerpt::excerpt,
    object::{named, object},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use super::{Attributes, Named, Question};

struct OfAttributes;
struct OfRequests;

/// A text of a client. What is no Unicode in it is replaced, as in headers of proxies.
struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_byte_buf(OfText).map(Self)
    }
}

struct OfText;

impl Visitor<'_> for OfText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

/// One request of a batch.
#[derive(Deserialize)]
struct Whole(#[serde(deserialize_with = "question")] Question);

fn question<'de, D: Deserializer<'de>>(from: D) -> Result<Question, D::Error> {
    named(from, Question::NAME)
}

pub(super) fn attributes<'de, D: Deserializer<'de>>(from: D) -> Result<Attributes, D::Error> {
    from.deserialize_map(OfAttributes).map_err(|error| within("attributes", error))
}

pub(super) fn cost<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    u32::deserialize(from).map_err(|error| within("cost", error))
}

pub(super) fn connection<'de, D: Deserializer<'de>>(from: D) -> Result<Named, D::Error> {
    object(from).map(Named::Connection).map_err(|error| within("connection", error))
}

pub(super) fn requests<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Question>, D::Error> {
    from.deserialize_seq(OfRequests)
}

/// Returns an error with where it is. The library finds line and column at its end.
fn within<E: Error>(place: &str, error: impl fmt::Display) -> E {
    E::custom(format_args!("{place}: {error}"))
}

impl<'de> Visitor<'de> for OfAttributes {
    type Value = Attributes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names with values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
        let mut attributes = Attributes::new();
        while let Some(name) = map.next_key::<String>()? {
            match attributes.entry(name) {
                Entry::Vacant(place) => {
                    let value = map.next_value();
                    let Lossy(value) = value.map_err(|error: A::Error| within(&excerpt(place.key()), error))?;
                    place.insert(value);
                }
                Entry::Occupied(place) => {
                    return Err(A::Error::custom(format_args!("{} is there twice: remove one", excerpt(place.key()))));
                }
            }
        }
        Ok(attributes)
    }
}

impl<'de> Visitor<'de> for OfRequests {
    type Value = Vec<Question>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Question>, A::Error> {
        let mut requests = Vec::new();
        loop {
            let next = list.next_element();
            match next.map_err(|error| within(&format!("request {}", requests.len() + 1), error))? {
                Some(Whole(request)) => requests.push(request),
                None => return Ok(requests),
            }
        }
    }
}
