//! Lists as JSON: arrays of texts, objects in arrays, one object per line.
//!
//! Any text that is an address, a prefix or a range is an entry. Other texts of an array with entries are named.

mod object;

use std::{
    cell::Cell,
    fmt,
    io::{self, BufRead, BufReader, Read},
    net::IpAddr,
};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use self::object::{MOST_MEMBERS, Object, Value, excluded_by};
use super::{
    content::{FeedError, LineError, MOST_BAD},
    entry,
    item::Item,
    sink::{Mark, Sink},
    words::{excludes_as_key, excludes_as_value},
};
use crate::text::{excerpt::excerpt, prefix::PrefixError, tokens::Bounded};

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
        if let Err(error) = reader.deserialize(&mut json) {
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

/// Where a value is.
#[derive(Debug, Clone, Copy)]
enum Place<'k> {
    Top,
    Array,
    Key(&'k str),
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
    fn deserialize<'de, D: Deserializer<'de>>(&mut self, json: D) -> Result<Value, D::Error> {
        Seed { reader: self, place: Place::Top }.deserialize(json)
    }

    /// Takes an item of a value, unless a key says otherwise.
    fn take(&mut self, line: usize, text: &str, items: &[Item]) {
        match self.excluding.clone() {
            Some(key) => self.sink.exclude(line, text, &LineError::Excluded(excerpt(&key)), items),
            None => self.sink.take(line, text, items),
        }
    }

    fn array<'de, A: SeqAccess<'de>>(&mut self, mut values: A, place: Place<'_>) -> Result<(), A::Error> {
        let mark = self.sink.mark();
        let (mut array, mut others) = (Array::default(), Vec::new());
        while let Some(value) = values.next_element_seed(Seed { reader: self, place: Place::Array })? {
            if let Err(failure) = self.sink.check(|_| false) {
                return Err(self.fail(failure));
            }
            let line = self.line.get();
            let before = array.last.take();
            array.values += 1;
            let text = match value {
                Value::Text(text) => text,
                Value::Number(number) => {
                    let number = number.unwrap_or_default();
                    let error = match before {
                        // The network and its length.
                        Some((address, mark)) if Item::Address(address).can_have(number) => {
                            self.sink.back(mark);
                            LineError::Length(address, number)
                        }
                        _ => LineError::Number,
                    };
                    others.push((line, number.to_string(), error));
                    continue;
                }
                Value::Flag(_) | Value::Null | Value::Inner => continue,
            };
            match entry::read(text.trim()) {
                Ok(entry) => {
                    array.texts += 1;
                    let mark = self.sink.mark();
                    if let [Item::Address(address)] = *entry.items {
                        array.last = Some((address, mark));
                        array.addresses.extend(Some(address).filter(|_| array.texts <= 2));
                    }
                    self.take(line, &text, &entry.items);
                }
                Err(error) => {
                    if excludes_as_value(&text) {
                        array.excluded.get_or_insert_with(|| excerpt(&text));
                    }
                    if error.is_exclusion() {
                        self.sink.exclude(line, &text, &error, &entry::excluded(&text));
                    } else {
                        others.push((line, excerpt(&text), error));
                    }
                }
            }
            if others.len() > MOST_BAD {
                return Err(self.fail(FeedError::Bad));
            }
        }
        let line = self.line.get();
        if let Some(why) = array.excluded {
            if self.sink.exclude_since(mark) {
                self.sink.refuse(line, "an array with addresses", &LineError::Excluded(why));
            }
        } else if let ([one, other], true) = (array.addresses.as_slice(), array.values == 2 && self.excluding.is_none())
        {
            // Such as `"range": ["192.0.2.1", "192.0.2.9"]`, or a network and its mask.
            let pair = match place {
                Place::Key(key) if key.eq_ignore_ascii_case("range") => Some(Item::range(*one, *other)),
                Place::Array if one.is_ipv4() == other.is_ipv4() => {
                    Some(Item::pair(*one, *other).ok_or(LineError::Several))
                }
                _ => None,
            };
            if let Some(pair) = pair {
                let text = format!("{one}, {other}");
                self.sink.back(mark);
                match pair {
                    Ok(pair) => self.sink.take(line, &text, &[pair]),
                    Err(error) => self.sink.refuse(line, &text, &error),
                }
            }
        }
        for (line, text, error) in others {
            let is_text = matches!(error, LineError::Prefix(PrefixError::Address) | LineError::Number);
            if !is_text || array.texts != 0 {
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
            let value = members.next_value_seed(Seed { reader: self, place: Place::Key(&key) });
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
                let items = entry::excluded(text);
                self.sink.exclude(line, text, &LineError::Excluded(excerpt(&key)), &items);
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
        if self.sink.takes_only_alone() {
            self.sink.back(mark);
            self.sink.refuse(begin, "an object", &LineError::NotAlone);
            return Ok(());
        }
        if let Some(why) = object.excluded.take() {
            if self.sink.exclude_since(mark) {
                self.sink.refuse(begin, "an object with addresses", &LineError::Excluded(excerpt(&why)));
            }
            for (_, text, item) in &object.items {
                self.sink.exclude(begin, text, &LineError::Excluded(excerpt(&why)), &[*item]);
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

/// What an array has.
#[derive(Default)]
struct Array {
    values: usize,
    texts: usize,
    /// The addresses of the first two texts.
    addresses: Vec<IpAddr>,
    /// The address just before, and what the feed had before it.
    last: Option<(IpAddr, Mark)>,
    /// The text that says that its addresses are not meant.
    excluded: Option<String>,
}

/// Reads one value.
struct Seed<'r, 'a, 'k> {
    reader: &'r mut Reader<'a>,
    place: Place<'k>,
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
        self.reader.array(values, self.place).map(|()| Value::Inner)
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
