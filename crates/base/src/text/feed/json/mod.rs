//! Lists as JSON: arrays of texts, objects in arrays, one object per line.
//!
//! Any text that is an address, a prefix or a range is an entry. Other texts of an array with entries are named.

mod object;

use std::{
    cell::Cell,
    fmt,
    io::{self, BufRead, BufReader, Read},
};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use self::object::{MOST_MEMBERS, Object, Value, excluded_by};
use super::{
    content::{FeedError, LineError, MOST_BAD},
    entry,
    item::Item,
    sink::Sink,
    words::excludes_as_key,
};
use crate::text::{prefix::PrefixError, tokens::Bounded};

/// Reads a list. Several values can follow each other.
pub(super) fn read(input: impl Read, sink: &mut Sink) -> Result<(), FeedError> {
    let line = Cell::new(1);
    let mut input = Counted { input: BufReader::with_capacity(1 << 16, Bounded::of(input)), line: &line };
    let mut reader = Reader { sink, line: &line, failure: None, excluding: None };
    while let Some(first) = input.skip_space()? {
        if !matches!(first, b'{' | b'[') {
            return Err(FeedError::Json(format!("line {} goes on with something else", line.get())));
        }
        let mut json = serde_json::Deserializer::from_reader(&mut input);
        if let Err(error) = reader.deserialize(&mut json, None) {
            return Err(reader.failure.take().unwrap_or_else(|| match error.io_error_kind() {
                Some(_) => FeedError::Io(error.into()),
                None => FeedError::Json(format!("line {}: {}", line.get(), what(&error))),
            }));
        }
    }
    reader.sink.check(|_| false)
}

/// Returns an error without its place in the value.
fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or_else(|| text.clone(), |(what, _)| what.to_owned())
}

/// Reads values, and puts what they say into a feed.
struct Reader<'a> {
    sink: &'a mut Sink,
    line: &'a Cell<usize>,
    /// Why the list is refused as a whole.
    failure: Option<FeedError>,
    /// The key around this value that says that it is not meant.
    excluding: Option<String>,
}

impl Reader<'_> {
    fn deserialize<'de, D: Deserializer<'de>>(&mut self, json: D, key: Option<&str>) -> Result<Value, D::Error> {
        Seed { reader: self, key }.deserialize(json)
    }

    /// Takes an item of a value, unless a key says otherwise.
    fn take(&mut self, line: usize, text: &str, items: &[Item]) {
        match self.excluding.clone() {
            Some(key) => self.sink.refuse(line, text, &LineError::Excluded(key)),
            None => self.sink.take(line, text, items),
        }
    }

    fn array<'de, A: SeqAccess<'de>>(&mut self, mut values: A, key: Option<&str>) -> Result<(), A::Error> {
        let (mark, mut texts, mut others, mut pair) = (self.sink.mark(), 0, Vec::new(), Vec::new());
        while let Some(value) = values.next_element_seed(Seed { reader: self, key: None })? {
            if let Err(failure) = self.sink.check(|_| false) {
                return Err(self.fail(failure));
            }
            let line = self.line.get();
            let text = match value {
                Value::Text(text) => text,
                Value::Number(number) => {
                    others.push((line, number.unwrap_or_default().to_string(), LineError::Number));
                    continue;
                }
                Value::Flag(_) | Value::Null | Value::Inner => continue,
            };
            match entry::read(text.trim()) {
                Ok(entry) => {
                    texts += 1;
                    if texts <= 2 {
                        pair.extend(entry.items.iter().copied());
                    }
                    self.take(line, &text, &entry.items);
                }
                Err(error) => others.push((line, text, error)),
            }
            if others.len() > MOST_BAD {
                return Err(self.fail(FeedError::Bad));
            }
        }
        // Such as `"range": ["192.0.2.1", "192.0.2.9"]`, or a network and its mask.
        if let (2, [Item::Address(one), Item::Address(other)]) = (texts, pair.as_slice()) {
            let is_range = key.is_some_and(|key| key.eq_ignore_ascii_case("range"));
            let joined = if is_range { Item::range(*one, *other).ok() } else { Item::pair(*one, *other) };
            if let Some(joined) = joined
                && self.excluding.is_none()
            {
                self.sink.back(mark);
                self.sink.take(self.line.get(), &format!("{one}, {other}"), &[joined]);
            }
        }
        for (line, text, error) in others {
            let is_text = matches!(error, LineError::Prefix(PrefixError::Address) | LineError::Number);
            if !is_text || texts != 0 {
                self.sink.refuse(line, &text, &error);
            }
        }
        Ok(())
    }

    fn object<'de, A: MapAccess<'de>>(&mut self, mut members: A) -> Result<(), A::Error> {
        let (begin, mark) = (self.line.get(), self.sink.mark());
        let mut object = Object::default();
        while let Some(key) = members.next_key::<String>()? {
            if let Err(failure) = self.sink.check(|_| false) {
                return Err(self.fail(failure));
            }
            let outer = self.excluding.clone();
            if excludes_as_key(&key) {
                self.excluding.get_or_insert_with(|| key.clone());
            }
            let value = members.next_value_seed(Seed { reader: self, key: Some(&key) });
            self.excluding = outer;
            let line = self.line.get();
            if let Ok(Some(_)) = Item::of(&key) {
                self.sink.refuse(line, &key, &LineError::Key);
            }
            let (object, value) = (&mut object, value?);
            if let Value::Text(text) = &value
                && excludes_as_key(&key)
                && entry::read(text.trim()).is_ok()
            {
                self.sink.refuse(line, text, &LineError::Excluded(key));
                continue;
            }
            if let Some(why) = excluded_by(&key, &value) {
                object.excluded.get_or_insert(why);
            }
            object.add(&key, value);
            if object.items.len() > MOST_MEMBERS {
                self.flush(line, object);
            }
        }
        if let Some(why) = object.excluded.take() {
            if self.sink.exclude_since(mark) {
                self.sink.refuse(begin, "an object with addresses", &LineError::Excluded(why.clone()));
            }
            for (_, text, _) in &object.items {
                self.sink.refuse(begin, text, &LineError::Excluded(why.clone()));
            }
            return Ok(());
        }
        self.flush(self.line.get(), &mut object);
        Ok(())
    }

    /// Takes what an object says itself.
    fn flush(&mut self, line: usize, object: &mut Object) {
        let text = object.items.first().map(|(_, text, _)| text.clone()).unwrap_or_default();
        match (object.bad.take(), object.judge()) {
            (Some((text, error)), _) => self.sink.refuse(line, &text, &error),
            (None, Err(error)) => self.sink.refuse(line, &text, &error),
            (None, Ok(items)) if items.is_empty() => {}
            (None, Ok(items)) => self.take(line, &text, &items),
        }
        object.items.clear();
    }

    fn fail<E: serde::de::Error>(&mut self, failure: FeedError) -> E {
        self.failure = Some(failure);
        E::custom("refused")
    }
}

/// Reads one value.
struct Seed<'r, 'a, 'k> {
    reader: &'r mut Reader<'a>,
    key: Option<&'k str>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(Some(number)))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Value, A::Error> {
        self.reader.array(values, self.key).map(|()| Value::Inner)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        self.reader.object(members).map(|()| Value::Inner)
    }
}

/// Counts lines.
struct Counted<'a, R> {
    input: R,
    line: &'a Cell<usize>,
}

impl<R: BufRead> Counted<'_, R> {
    /// Returns the next byte that is no space, and leaves it there. None at the end.
    fn skip_space(&mut self) -> io::Result<Option<u8>> {
        while let Some(first) = self.input.fill_buf()?.first().copied() {
            if !first.is_ascii_whitespace() {
                return Ok(Some(first));
            }
            self.line.set(self.line.get() + usize::from(first == b'\n'));
            self.input.consume(1);
        }
        Ok(None)
    }
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let ends = buffer.iter().take(count).filter(|byte| **byte == b'\n').count();
        self.line.set(self.line.get() + ends);
        Ok(count)
    }
}
