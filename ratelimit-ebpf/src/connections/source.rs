//! What is remembered of a source.

use ratelimit_common::{cells::own_connection::Remembered, maps::control::Control};

use crate::{
    connections::hash,
    maps::own_connections::{self as places, Peer},
    packet::context::Context,
};

/// The place of a source, which other sources may share.
pub(super) struct Found {
    pub(super) peer: &'static Peer,
    hash: u64,
    /// Own connections got packets from the source.
    pub(super) is_peer: bool,
}

/// Returns the place of a packet's source.
#[inline(always)]
pub(super) fn find(context: &Context, control: &Control) -> Option<Found> {
    let hash = hash::of_source(context, control);
    let peer = places::peer(hash)?;
    let marked = Remembered(peer.seen.load());
    Some(Found { peer, hash, is_peer: marked.is(hash) && marked.is_kept(context.tick) })
}

impl Found {
    /// Remembers that an own connection got a packet.
    #[inline(always)]
    pub(super) fn mark(&self, now: u64) {
        let mark = Remembered::new(self.hash, true, now).0;
        if self.peer.seen.load() != mark {
            self.peer.seen.store(mark);
        }
    }
}
