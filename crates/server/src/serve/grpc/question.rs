//! Descriptors of Envoy as attributes.

use std::collections::btree_map::Entry;

use ratelimit_limiter::ADDRESS;

use super::messages::{self, Descriptor, RateLimitCall};
use crate::serve::{
    question::{Attributes, Batch, Question},
    stops,
};

/// The attribute with the domain of a call.
const DOMAIN: &str = "domain";
/// Envoy's name of a client's address.
const REMOTE_ADDRESS: &str = "remote_address";

/// Entries with the ends of the client's connection. They are no attributes.
const ENDS: [&str; 2] = ["connection_local", "connection_remote"];

/// Returns one question for each descriptor. All of them are allowed, or none.
pub(super) fn batch(call: RateLimitCall, merges_paths: bool) -> Batch {
    // Envoy leaves the number away when it is one.
    let hits = u64::from(call.hits_addend.max(1));
    let domain = text(&call.domain);
    let question = |descriptor| question(descriptor, &domain, hits, merges_paths);
    Batch::of_parts(call.descriptors.into_iter().map(question).collect())
}

fn question(descriptor: Descriptor, domain: &str, hits: u64, merges_paths: bool) -> Question {
    let [mut local, mut remote] = [None, None];
    let mut attributes = Attributes::from([(DOMAIN.to_owned(), domain.to_owned())]);
    for messages::Entry { key, value } in descriptor.entries {
        let (key, value) = (text(&key), text(&value));
        if let Some((_, end)) = ENDS.iter().zip([&mut local, &mut remote]).find(|(name, _)| **name == key) {
            *end = Some(value);
            continue;
        }
        let name = if key == REMOTE_ADDRESS { ADDRESS.to_owned() } else { key };
        let value = Question::spelled(&name, value, merges_paths);
        insert(&mut attributes, name, value);
    }
    let hits = descriptor.hits_addend.map_or(hits, |hits| hits.value);
    let cost = if descriptor.is_negative_hits { 0 } else { u32::try_from(hits).unwrap_or(u32::MAX) };
    let connection = stops::of_texts(local.as_deref(), remote.as_deref()).into();
    Question { cost, connection, ..Question::of_proxy(attributes) }
}

/// Returns a text. What is no Unicode in it is replaced, as in headers of nginx.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Inserts an attribute. Another one of the same name becomes `name.2`, as both of them can matter.
fn insert(attributes: &mut Attributes, name: String, value: String) {
    let number = attributes.len();
    match attributes.entry(name) {
        Entry::Vacant(place) => {
            place.insert(value);
        }
        Entry::Occupied(place) => {
            let name = place.key().clone();
            let free =
                (2..number + 3).map(|number| format!("{name}.{number}")).find(|name| !attributes.contains_key(name));
            attributes.extend(free.map(|name| (name, value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::google::protobuf::UInt64Value;

    use super::*;
    use crate::serve::question::Named;

    fn descriptor(entries: &[(&str, &str)]) -> Descriptor {
        let entry = |(key, value): &(&str, &str)| messages::Entry { key: (*key).into(), value: (*value).into() };
        Descriptor { entries: entries.iter().map(entry).collect(), ..Descriptor::default() }
    }

    fn attributes(entries: &[(&str, &str)]) -> Vec<(String, String)> {
        question(descriptor(entries), "edge", 1, true).attributes.into_iter().collect()
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_text_that_is_no_unicode_is_decided_as_that_of_a_header() {
        let entry = messages::Entry { key: b"path".to_vec(), value: b"/a\xff".to_vec() };
        let descriptor = Descriptor { entries: vec![entry], ..Descriptor::default() };
        let call = RateLimitCall { descriptors: vec![descriptor], ..RateLimitCall::default() };
        let (attributes, _) = &batch(call, true).within_bounds().unwrap().all[0];
        assert_eq!(attributes["path"], "/a%EF%BF%BD");
    }

    #[test]
    fn entries_are_attributes_and_repeated_names_get_numbers() {
        assert_eq!(
            attributes(&[("remote_address", "192.0.2.1"), ("path", "/login")]),
            pairs(&[("domain", "edge"), ("ip", "192.0.2.1"), ("path", "/login")])
        );
        assert_eq!(
            attributes(&[("generic_key", "a"), ("generic_key", "b"), ("generic_key", "c")]),
            pairs(&[("domain", "edge"), ("generic_key", "a"), ("generic_key.2", "b"), ("generic_key.3", "c")])
        );
        assert_eq!(
            attributes(&[("path", "/login?x=1"), ("host", "API.test:443")]),
            pairs(&[("domain", "edge"), ("host", "api.test"), ("path", "/login")])
        );
        // An entry cannot pretend to be the domain.
        assert_eq!(attributes(&[("domain", "x")]), pairs(&[("domain", "edge"), ("domain.2", "x")]));
    }

    fn of_ends(local: &str, remote: &str) -> Named {
        stops::of_texts(Some(local), Some(remote)).into()
    }

    #[test]
    fn a_connection_that_one_descriptor_names_is_that_of_all() {
        let ends = |remote| descriptor(&[("connection_local", "192.0.2.1:443"), ("connection_remote", remote)]);
        let named = |descriptors: &[Descriptor]| {
            let call = RateLimitCall { descriptors: descriptors.to_vec(), ..RateLimitCall::default() };
            batch(call, true).within_bounds().unwrap().connections
        };
        let all = named(&[descriptor(&[("path", "/")]), ends("203.0.113.7:5"), ends("203.0.113.8:5"), descriptor(&[])]);
        let [first, second] = ["203.0.113.7:5", "203.0.113.8:5"].map(|remote| of_ends("192.0.2.1:443", remote));
        assert_eq!(all, [first, first, second, first]);
        assert_eq!(named(&[descriptor(&[]), ends("nothing")]), [Named::Nothing; 2]);
    }

    #[test]
    fn the_ends_of_a_connection_are_no_attributes() {
        let ends = [("connection_local", "192.0.2.1:443"), ("connection_remote", "203.0.113.7:5")];
        let question = question(descriptor(&ends), "edge", 1, true);
        assert_eq!(question.connection, of_ends("192.0.2.1:443", "203.0.113.7:5"));
        assert_eq!(attributes(&ends), pairs(&[("domain", "edge")]));
    }

    #[test]
    fn the_hits_of_a_descriptor_outrank_those_of_the_call() {
        let cost = |own: Option<u64>, is_negative_hits| {
            let hits_addend = own.map(|value| UInt64Value { value });
            question(Descriptor { hits_addend, is_negative_hits, ..descriptor(&[]) }, "", 7, true).cost
        };
        assert_eq!((cost(None, false), cost(Some(3), false), cost(Some(0), false)), (7, 3, 0));
        assert_eq!((cost(Some(u64::MAX), false), cost(Some(3), true)), (u32::MAX, 0));
    }
}
