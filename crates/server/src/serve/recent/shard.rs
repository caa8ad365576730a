//! The requests of some of the clients.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

/// The most requests of a client. A further one replaces its oldest.
pub(in crate::serve) const OF_CLIENT: usize = 1 << 10;
/// The bytes of an attribute beside its text, and of a request.
const OVERHEAD: usize = 48;
/// The bytes of a client beside its requests.
const CLIENT: usize = 128;

/// The requests of some of the clients.
#[derive(Debug, Default)]
pub(super) struct Shard {
    clients: HashMap<u64, Client>,
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

#[derive(Debug, Default)]
struct Client {
    /// Ordered by time.
    requests: VecDeque<Arc<Request>>,
    /// When the last request was made that another one has replaced.
    replaced: Option<u64>,
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) at: u64,
    pub(super) cost: u32,
    pub(super) attributes: Vec<(Box<str>, Box<str>)>,
}

/// Returns the bytes of a request with so many attributes, whose names and values have so many bytes.
pub(super) fn bytes(attributes: usize, length: usize) -> usize {
    CLIENT + OVERHEAD + attributes * OVERHEAD + length
}

impl Request {
    pub(super) fn new(attributes: &BTreeMap<String, String>, cost: u32, at: u64) -> Self {
        let boxed = |(name, value): (&String, &String)| (name.as_str().into(), value.as_str().into());
        Self { at, cost, attributes: attributes.iter().map(boxed).collect() }
    }

    /// Returns its bytes, with those of a client that has no other one.
    pub(super) fn bytes(&self) -> usize {
        bytes(self.attributes.len(), self.attributes.iter().map(|(name, value)| name.len() + value.len()).sum())
    }
}

impl Shard {
    /// Adds a request of the client with this hash. Returns the one that it replaces.
    pub(super) fn add(&mut self, hash: u64, request: Arc<Request>) -> Option<Arc<Request>> {
        self.requests += 1;
        self.bytes += request.bytes();
        let client = self.clients.entry(hash).or_default();
        client.requests.push_back(request);
        let replaced = if client.requests.len() > OF_CLIENT { client.requests.pop_front()? } else { return None };
        client.replaced = Some(replaced.at);
        self.requests -= 1;
        self.bytes -= replaced.bytes();
        Some(replaced)
    }

    /// Removes the requests before a time, and returns them.
    pub(super) fn expire(&mut self, before: u64) -> Vec<Arc<Request>> {
        let mut removed = Vec::new();
        self.clients.retain(|_, Client { requests, .. }| {
            let expired = requests.iter().take_while(|request| request.at < before).count();
            if expired > 0 {
                removed.extend(requests.drain(..expired));
                requests.shrink_to(2 * requests.len());
            }
            !requests.is_empty()
        });
        self.without(removed)
    }

    /// Removes the requests of clients whose hashes have a bit of a mask, and returns them.
    pub(super) fn leave_out(&mut self, mask: u64) -> Vec<Arc<Request>> {
        let out = self.clients.extract_if(|hash, _| hash & mask != 0);
        let removed = out.flat_map(|(_, client)| client.requests).collect();
        self.without(removed)
    }

    fn without(&mut self, removed: Vec<Arc<Request>>) -> Vec<Arc<Request>> {
        self.requests -= removed.len();
        self.bytes -= removed.iter().map(|request| request.bytes()).sum::<usize>();
        removed
    }

    /// Finds the requests since a time of clients whose hashes have no bit of a mask. Returns how many of the clients had
    /// more of them.
    pub(super) fn read(&self, (mask, since): (u64, u64), found: &mut Vec<(u64, Arc<Request>)>) -> usize {
        let mut cut = 0;
        for (hash, client) in self.clients.iter().filter(|(hash, _)| *hash & mask == 0) {
            cut += usize::from(client.replaced.is_some_and(|at| at >= since));
            let requests = client.requests.iter().filter(|request| request.at >= since);
            found.extend(requests.map(|request| (*hash, Arc::clone(request))));
        }
        cut
    }
}
