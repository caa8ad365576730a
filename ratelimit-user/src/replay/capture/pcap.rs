//! The format pcap (draft-ietf-opsawg-pcap).

use std::io::Read;

use ratelimit_common::limits::limit::SECOND;

use super::{
    input::{Fields, Input, Order},
    link::Link,
    packet::{Bad, Packet},
};

/// The most captured bytes of a packet. Programs that capture take at most a quarter of this.
pub(super) const MOST_BYTES: u32 = 1 << 20;

/// The first bytes, in big endian, with times in microseconds and in nanoseconds.
const MAGIC: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];

/// Bytes of the file's header behind the magic number, and of a packet's header.
const HEADERS: [usize; 2] = [20, 16];

/// What the header says about all packets.
pub(super) struct Pcap {
    order: Order,
    /// Nanoseconds of a unit of time.
    unit: u64,
    link: u32,
}

impl Pcap {
    /// Reads the header behind the magic number. None if it is another format.
    pub(super) fn open<R: Read>(magic: [u8; 4], input: &mut Input<R>) -> Result<Option<Self>, Bad> {
        let [micro, nano] = MAGIC;
        let found = [Order::Big, Order::Little].into_iter().find_map(|order| match order.u32(magic) {
            magic if magic == micro => Some((order, 1_000)),
            magic if magic == nano => Some((order, 1)),
            _ => None,
        });
        let Some((order, unit)) = found else { return Ok(None) };
        let Some(header) = input.rest(HEADERS[0])? else { return Ok(None) };
        let link = header.last_chunk().map_or(0, |bytes| order.u32(*bytes));
        // The upper half tells about checksums.
        Ok(Some(Self { order, unit, link: link & 0xffff }))
    }

    pub(super) fn next<'a, R: Read>(&mut self, input: &'a mut Input<R>) -> Result<Option<Packet<'a>>, Bad> {
        let Some(header) = input.array::<{ HEADERS[1] }>()? else { return Ok(None) };
        let mut fields = Fields { left: &header, order: self.order };
        let mut field = || fields.u32().unwrap_or_default();
        let [seconds, fraction, captured, length] = [field(), field(), field(), field()];
        if captured > MOST_BYTES {
            return Err(Bad::Wrong("it has a packet of more than 1 MiB"));
        }
        let link = Link::of(self.link).ok_or(Bad::Link(self.link))?;
        let time = u64::from(seconds) * SECOND + u64::from(fraction) * self.unit;
        let Some(bytes) = input.rest(captured as usize)? else { return Ok(None) };
        Ok(Some(Packet { time: Some(time), link, length: length.max(captured), bytes, is_outgoing: None }))
    }
}
