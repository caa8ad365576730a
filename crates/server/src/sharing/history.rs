//! What was seen lately of one address.

use smallvec::SmallVec;

/// A second.
const SECOND: u64 = 1_000_000_000;
/// Requests count for one to two such times.
pub(super) const HALF: u64 = 30 * SECOND;
/// How long an address must be known, so that others that share it had time to be seen.
pub(super) const KNOWN: u64 = 10 * SECOND;
/// Refusals of a client that goes on asking. Those within a second count once, because a client can have several requests
/// under way before it knows of the first refusal.
pub(super) const REFUSED: u32 = 10;
/// Clients of an address with a count of their own: one, and so many others as may be active beside it.
pub(super) const CLIENTS: usize = 3;

/// The identity of a client, as a hash.
pub(super) type Client = u128;

/// What a request says about its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The request was not refused.
    NotRefused,
    /// The client may be stopped: it goes on asking although it is refused, and hardly anybody else asks from here.
    Alone,
    /// The client was refused too seldom so far, or its address is known for too short a time.
    Early,
    /// Others ask from the address of the client.
    Shared,
    /// The connection is that of a proxy.
    Proxied,
    /// The client may not be stopped, and an earlier request of this second has said why.
    Repeated,
}

/// Requests of now, and of the time before.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    now: u32,
    before: u32,
}

impl Count {
    fn add(&mut self) {
        self.now = self.now.saturating_add(1);
    }

    fn all(self) -> u64 {
        u64::from(self.now) + u64::from(self.before)
    }

    /// Begins another time, after so many.
    fn turn(&mut self, times: u64) {
        self.before = if times == 1 { self.now } else { 0 };
        self.now = 0;
    }
}

/// A client, with its requests and those that were refused.
#[derive(Debug, Clone)]
struct Known {
    client: Client,
    requests: Count,
    refused: Count,
    /// When it last asked. All requests of a batch have one time.
    asked: Option<u64>,
    /// The time of the last refusal that counts.
    refused_at: Option<u64>,
}

/// What was seen lately of one address.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// Since when it is seen without a pause that forgets everything.
    since: u64,
    /// The number of this time.
    time: u64,
    known: SmallVec<[Known; CLIENTS]>,
    /// Requests of all clients without a count of their own.
    others: Count,
    /// The time of the last refusal of one of them that counts.
    refused_at: Option<u64>,
}

impl History {
    /// Begins with nothing.
    pub(super) fn new(now: u64) -> Self {
        Self { since: now, time: now / HALF, known: SmallVec::new(), others: Count::default(), refused_at: None }
    }

    /// Counts a request of a client, or of one that is told from no other. Returns whether that client may be stopped.
    pub(super) fn note(&mut self, client: Option<Client>, is_refused: bool, now: u64) -> Finding {
        self.turn(now);
        let place = client.and_then(|client| self.place(client));
        let Some(known) = place.and_then(|place| self.known.get_mut(place)) else {
            self.others.add();
            return match is_refused {
                false => Finding::NotRefused,
                true if begins(&mut self.refused_at, now) => Finding::Shared,
                true => Finding::Repeated,
            };
        };
        // A batch is one request.
        if known.asked.replace(now) != Some(now) {
            known.requests.add();
        }
        if !is_refused {
            return Finding::NotRefused;
        }
        let is_first = begins(&mut known.refused_at, now);
        if is_first {
            known.refused.add();
        }
        let (own, refused) = (known.requests.all(), known.refused.all());
        let is_early = refused < u64::from(REFUSED) || now.saturating_sub(self.since) < KNOWN;
        let is_alone = self.others.all() == 0 && own * 5 >= self.all() * 4;
        match (is_early, is_alone) {
            (false, true) => Finding::Alone,
            _ if !is_first => Finding::Repeated,
            (true, _) => Finding::Early,
            (false, false) => Finding::Shared,
        }
    }

    /// Returns the place of a client, which gets one if there is room.
    fn place(&mut self, client: Client) -> Option<usize> {
        let place = self.known.iter().position(|known| known.client == client);
        if place.is_none() && self.known.len() < CLIENTS {
            let (requests, refused) = Default::default();
            self.known.push(Known { client, requests, refused, asked: None, refused_at: None });
            return Some(self.known.len() - 1);
        }
        place
    }

    fn all(&self) -> u64 {
        self.known.iter().map(|known| known.requests.all()).sum()
    }

    /// Forgets requests that are too old. A time that goes back changes nothing.
    fn turn(&mut self, now: u64) {
        let times = (now / HALF).saturating_sub(self.time);
        if times == 0 {
            return;
        }
        self.time += times;
        self.others.turn(times);
        self.known.retain(|known| {
            known.requests.turn(times);
            known.refused.turn(times);
            known.requests.all() > 0
        });
        if self.known.is_empty() && self.others.all() == 0 {
            self.since = now;
        }
    }
}

/// Returns whether a refusal is the first one of a client within a second, and notes its time then.
fn begins(last: &mut Option<u64>, now: u64) -> bool {
    let is_first = last.is_none_or(|last| now.saturating_sub(last) >= SECOND);
    if is_first {
        *last = Some(now);
    }
    is_first
}
