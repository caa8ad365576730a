//! What is remembered of this host's own connections. Each loaded program has its own maps, which no command reads.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::cells::own_connection::{self, BUDGETS, CONNECTIONS, PEERS};

use crate::bpf::{atomic::Word, map_flags::ALIGNED};

/// Keyed hash of a connection → [`Remembered`](own_connection::Remembered).
#[btf_map]
pub static OWN_CONNECTIONS: Array<Word, { CONNECTIONS as usize }, ALIGNED> = Array::new();

/// Keyed hash of a source → [`own_connection::Peer`].
#[btf_map]
pub static OWN_PEERS: Array<Peer, { PEERS as usize }, ALIGNED> = Array::new();

/// [`own_connection::Peer`], which the CPUs share.
#[repr(C)]
#[expect(missing_docs, reason = "they are those of `Peer`")]
pub struct Peer {
    pub seen: Word,
    pub rate: Word,
    pub look_ups: [Word; BUDGETS],
}
const _: () = assert!(size_of::<Peer>() == size_of::<own_connection::Peer>());

/// Returns the place of the connection with this hash.
#[inline(always)]
#[must_use]
pub fn connection(hash: u64) -> Option<&'static Word> {
    OWN_CONNECTIONS.get(hash as u32 & (CONNECTIONS - 1))
}

/// Returns the place of the source with this hash. Other sources may share it.
#[inline(always)]
#[must_use]
pub fn peer(hash: u64) -> Option<&'static Peer> {
    OWN_PEERS.get(hash as u32 & (PEERS - 1))
}
