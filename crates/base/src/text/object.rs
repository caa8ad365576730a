//! Values that JSON writes as objects only. A list of the fields in their order is none.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Reads a value from an object.
///
/// # Errors
///
/// Those of the format, also for anything that is no object.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    named(from, "an object")
}

/// Reads a value from an object, which errors call by this name.
///
/// # Errors
///
/// Those of the format, also for anything that is no object.
pub fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D, name: &'static str) -> Result<T, D::Error> {
    from.deserialize_map(Object(name, PhantomData))
}

/// Reads a value from the object that these bytes are, and which errors call by this name.
///
/// # Errors
///
/// Those of JSON, also for anything that is no object.
pub fn from_slice<'de, T: Deserialize<'de>>(json: &'de [u8], name: &'static str) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let value = named(&mut json, name)?;
    json.end().map(|()| value)
}

struct Object<T>(&'static str, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
