//! Descriptors of Envoy as attributes.

use std::collections::btree_map::Entry;

use envoy_types::pb::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor},
    service::ratelimit::v3::RateLimitRequest,
};
use ratelimit_limiter::ADDRESS;

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
pub(super) fn batch(request: RateLimitRequest) -> Batch {
    // Envoy leaves the number away when it is one.
    let hits = u64::from(request.hits_addend.max(1));
    let question = |descriptor| question(descriptor, &request.domain, hits);
    Batch::of_parts(request.descriptors.into_iter().map(question).collect())
}

fn question(descriptor: RateLimitDescriptor, domain: &str, hits: u64) -> Question {
    let [mut local, mut remote] = [None, None];
    let mut attributes = Attributes::from([(DOMAIN.to_owned(), domain.to_owned())]);
    for rate_limit_descriptor::Entry { key, value } in descriptor.entries {
        if let Some((_, end)) = ENDS.iter().zip([&mut local, &mut remote]).find(|(name, _)| **name == key) {
            *end = Some(value);
            continue;
        }
        let name = if key == REMOTE_ADDRESS { ADDRESS.to_owned() } else { key };
        let value = Question::of_proxy(&name, value);
        insert(&mut attributes, name, value);
    }
    let hits = descriptor.hits_addend.map_or(hits, |hits| hits.value);
    let cost = if descriptor.is_negative_hits { 0 } else { u32::try_from(hits).unwrap_or(u32::MAX) };
    Question { attributes, cost, connection: stops::of_texts(local.as_deref(), remote.as_deref()).into() }
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

    fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
        let entry = |(key, value): &(&str, &str)| rate_limit_descriptor::Entry {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
    }

    fn attributes(entries: &[(&str, &str)]) -> Vec<(String, String)> {
        question(descriptor(entries), "edge", 1).attributes.into_iter().collect()
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
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
        let named = |descriptors: &[RateLimitDescriptor]| {
            let request = RateLimitRequest { descriptors: descriptors.to_vec(), ..RateLimitRequest::default() };
            batch(request).within_bounds().unwrap().connections
        };
        let all = named(&[descriptor(&[("path", "/")]), ends("203.0.113.7:5"), ends("203.0.113.8:5"), descriptor(&[])]);
        let [first, second] = ["203.0.113.7:5", "203.0.113.8:5"].map(|remote| of_ends("192.0.2.1:443", remote));
        assert_eq!(all, [first, first, second, first]);
        assert_eq!(named(&[descriptor(&[]), ends("nothing")]), [Named::Nothing; 2]);
    }

    #[test]
    fn the_ends_of_a_connection_are_no_attributes() {
        let ends = [("connection_local", "192.0.2.1:443"), ("connection_remote", "203.0.113.7:5")];
        let question = question(descriptor(&ends), "edge", 1);
        assert_eq!(question.connection, of_ends("192.0.2.1:443", "203.0.113.7:5"));
        assert_eq!(attributes(&ends), pairs(&[("domain", "edge")]));
    }

    #[test]
    fn the_hits_of_a_descriptor_outrank_those_of_the_call() {
        let cost = |own: Option<u64>, is_negative_hits| {
            let hits_addend = own.map(|value| UInt64Value { value });
            question(RateLimitDescriptor { hits_addend, is_negative_hits, ..descriptor(&[]) }, "", 7).cost
        };
        assert_eq!((cost(None, false), cost(Some(3), false), cost(Some(0), false)), (7, 3, 0));
        assert_eq!((cost(Some(u64::MAX), false), cost(Some(3), true)), (u32::MAX, 0));
    }
}
