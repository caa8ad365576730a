//! Questions as JSON. A key that is there twice is refused, as the server and the caller could mean different ones.

use std::{collections::btree_map::Entry, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use super::{Attributes, Batch, Question};
use crate::{
    stops::Connection,
    text::{excerpt::excerpt, object::object},
};

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum KeyOfQuestion {
    Attributes,
    Cost,
    Connection,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum KeyOfBatch {
    Requests,
}

struct OfQuestion;
struct OfAttributes;
struct OfBatch;
struct OfRequests;

/// Attributes with different names.
struct Distinct(Attributes);

/// A connection that is no list of its ends.
#[derive(Deserialize)]
struct Object(#[serde(deserialize_with = "object")] Connection);

/// The requests of a batch.
struct Requests(Vec<Question>);

impl<'de> Deserialize<'de> for Question {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfQuestion)
    }
}

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfAttributes)
    }
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfBatch)
    }
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(OfRequests)
    }
}

/// Returns an error with where it is. The library finds line and column at its end.
fn within<E: Error>(place: &str, error: impl fmt::Display) -> E {
    E::custom(format_args!("{place}: {error}"))
}

fn twice<E: Error>(name: &str) -> E {
    E::custom(format_args!("{name} is there twice: remove one"))
}

impl<'de> Visitor<'de> for OfQuestion {
    type Value = Question;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Question, A::Error> {
        let (mut attributes, mut cost, mut connection) = (None, None, None);
        while let Some(key) = map.next_key()? {
            match key {
                KeyOfQuestion::Attributes if attributes.is_none() => {
                    let Distinct(all) = map.next_value().map_err(|error| within("attributes", error))?;
                    attributes = Some(all);
                }
                KeyOfQuestion::Cost if cost.is_none() => {
                    cost = Some(map.next_value().map_err(|error| within("cost", error))?);
                }
                KeyOfQuestion::Connection if connection.is_none() => {
                    let Object(ends) = map.next_value().map_err(|error| within("connection", error))?;
                    connection = Some(ends);
                }
                KeyOfQuestion::Attributes => return Err(twice("attributes")),
                KeyOfQuestion::Cost => return Err(twice("cost")),
                KeyOfQuestion::Connection => return Err(twice("connection")),
            }
        }
        let attributes = attributes.ok_or_else(|| A::Error::missing_field("attributes"))?;
        Ok(Question { attributes, cost: cost.unwrap_or(1), connection })
    }
}

impl<'de> Visitor<'de> for OfAttributes {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names with values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distinct, A::Error> {
        let mut attributes = Attributes::new();
        while let Some(name) = map.next_key::<String>()? {
            match attributes.entry(name) {
                Entry::Vacant(place) => {
                    let value = map.next_value();
                    let value = value.map_err(|error: A::Error| within(&excerpt(place.key()), error))?;
                    place.insert(value);
                }
                Entry::Occupied(place) => return Err(twice(&excerpt(place.key()))),
            }
        }
        Ok(Distinct(attributes))
    }
}

impl<'de> Visitor<'de> for OfBatch {
    type Value = Batch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with requests")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Batch, A::Error> {
        let mut requests = None;
        while let Some(KeyOfBatch::Requests) = map.next_key()? {
            if requests.is_some() {
                return Err(twice("requests"));
            }
            let Requests(all) = map.next_value()?;
            requests = Some(all);
        }
        requests.map(Batch::of).ok_or_else(|| A::Error::missing_field("requests"))
    }
}

impl<'de> Visitor<'de> for OfRequests {
    type Value = Requests;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Requests, A::Error> {
        let mut requests = Vec::new();
        loop {
            let next = list.next_element();
            match next.map_err(|error| within(&format!("request {}", requests.len() + 1), error))? {
                Some(request) => requests.push(request),
                None => return Ok(Requests(requests)),
            }
        }
    }
}
