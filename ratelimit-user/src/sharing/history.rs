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
}

impl History {
    /// Begins with nothing.
    pub(super) fn new(now: u64) -> Self {
        Self { since: now, time: now / HALF, known: SmallVec::new(), others: Count::default() }
    }

    /// Counts a request of a client, or of one that is told from no other. Returns whether that client may be stopped: it
    /// goes on asking although it is refused, and hardly anybody else asks from here.
    pub(super) fn note(&mut self, client: Option<Client>, is_refused: bool, now: u64) -> bool {
        self.turn(now);
        let place = client.and_then(|client| self.place(client));
        let Some(known) = place.and_then(|place| self.known.get_mut(place)) else {
            self.others.add();
            return false;
        };
        // A batch is one request.
        if known.asked.replace(now) != Some(now) {
            known.requests.add();
        }
        if is_refused && known.refused_at.is_none_or(|last| now.saturating_sub(last) >= SECOND) {
            known.refused.add();
            known.refused_at = Some(now);
        }
        let (own, refused) = (known.requests.all(), known.refused.all());
        is_refused
            && refused >= u64::from(REFUSED)
            && now.saturating_sub(self.since) >= KNOWN
            && self.others.all() == 0
            && own * 5 >= self.all() * 4
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
