//! The format pcapng (draft-ietf-opsawg-pcapng): sections of blocks. Blocks without packets are skipped.

use std::io::Read;

use ratelimit_common::limits::limit::SECOND;

use super::{
    input::{Fields, Input, Order},
    link::Link,
    packet::{Bad, Packet},
    pcap::MOST_BYTES,
};

/// The first bytes of a section, which are alike in both orders.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The number by which a section tells its order.
const MAGIC: u32 = 0x1a2b_3c4d;

/// Kinds of blocks.
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;

/// Bytes around the body of a block: its kind and, twice, its length.
const AROUND: u32 = 12;

/// Bytes in a block besides the captured ones: its fields and options.
const MOST_BESIDES: u32 = 1 << 16;

/// The most interfaces of a section.
const MOST_INTERFACES: usize = 4_096;

/// Options of interfaces and packets.
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;
const FLAGS: u16 = 2;

/// Directions in the lowest bits of the flags.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

const WRONG_LENGTH: Bad = Bad::Wrong("a block has a wrong length");
const SHORT: Bad = Bad::Wrong("a block is too short");

/// What a section says about its packets.
pub(super) struct PcapNg {
    order: Order,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u32,
    /// The most captured bytes of a packet.
    most: u32,
    /// Units of time per second.
    resolution: u64,
    /// Seconds to add to each time.
    offset: i64,
}

impl PcapNg {
    /// Reads the header of the first section, behind its kind. None if it is another format.
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Option<Self>, Bad> {
        let mut new = Self { order: Order::Big, interfaces: Vec::new() };
        Ok(new.section(input)?.then_some(new))
    }

    pub(super) fn next<'a, R: Read>(&mut self, input: &'a mut Input<R>) -> Result<Option<Packet<'a>>, Bad> {
        let kind = loop {
            let Some(kind) = input.array::<4>()? else { return Ok(None) };
            if kind == SECTION {
                if !self.section(input)? {
                    return Ok(None);
                }
                continue;
            }
            let kind = self.order.u32(kind);
            let Some(length) = input.rest(4)?.and_then(|bytes| bytes.first_chunk()) else { return Ok(None) };
            let length = body(self.order.u32(*length))?;
            match kind {
                INTERFACE => {
                    let Some(body) = whole(self.order, input, length)? else { return Ok(None) };
                    self.interface(body)?;
                }
                PACKET | OBSOLETE_PACKET | SIMPLE_PACKET => break (kind, length),
                _ if input.skip(u64::from(length) + 4)? => {}
                _ => return Ok(None),
            }
        };
        let (kind, length) = kind;
        let Some(body) = whole(self.order, input, length)? else { return Ok(None) };
        self.packet(kind, body).map(Some)
    }

    /// Reads the header of a section behind its kind. Returns false if the input ends.
    fn section<R: Read>(&mut self, input: &mut Input<R>) -> Result<bool, Bad> {
        let Some(&[a, b, c, d, ref magic @ ..]) = input.rest(8)?.and_then(|bytes| bytes.first_chunk::<8>()) else {
            return Ok(false);
        };
        let has_magic = |order: &Order| order.u32(*magic) == MAGIC;
        self.order = [Order::Big, Order::Little]
            .into_iter()
            .find(has_magic)
            .ok_or(Bad::Wrong("the header of a section has no order of bytes"))?;
        self.interfaces.clear();
        let length = body(self.order.u32([a, b, c, d]))?;
        Ok(input.skip(u64::from(length.checked_sub(4).ok_or(SHORT)?) + 4)?)
    }

    fn interface(&mut self, body: Fields<'_>) -> Result<(), Bad> {
        let mut fields = body;
        let (Some(link), Some(_), Some(most)) = (fields.u16(), fields.u16(), fields.u32()) else { return Err(SHORT) };
        if self.interfaces.len() == MOST_INTERFACES {
            return Err(Bad::Wrong("a section has more than 4,096 interfaces"));
        }
        let mut new = Interface { link: u32::from(link), most, resolution: 1_000_000, offset: 0 };
        while let Some((option, mut value)) = option(&mut fields) {
            match (option, value.left) {
                (RESOLUTION, [resolution, ..]) => {
                    let (base, exponent) =
                        if resolution & 0x80 == 0 { (10, resolution) } else { (2, &(resolution & 0x7f)) };
                    new.resolution = u64::checked_pow(base, u32::from(*exponent))
                        .ok_or(Bad::Wrong("an interface has a finer resolution of time than any clock"))?;
                }
                (OFFSET, _) => new.offset = value.u64().map_or(0, u64::cast_signed),
                _ => {}
            }
        }
        self.interfaces.push(new);
        Ok(())
    }

    fn packet<'a>(&self, kind: u32, body: Fields<'a>) -> Result<Packet<'a>, Bad> {
        let mut fields = body;
        let mut field = || fields.u32().ok_or(SHORT);
        let (interface, time, captured, length) = match kind {
            SIMPLE_PACKET => (0, None, None, field()?),
            _ => {
                let interface = field()?;
                let time = u64::from(field()?) << 32 | u64::from(field()?);
                (interface, Some(time), Some(field()?), field()?)
            }
        };
        let interface = match (kind, self.order) {
            // The other half of the field counts lost packets.
            (OBSOLETE_PACKET, Order::Big) => interface >> 16,
            (OBSOLETE_PACKET, Order::Little) => interface & 0xffff,
            _ => interface,
        };
        let unknown = Bad::Wrong("a packet belongs to an interface that is not described");
        let interface = self.interfaces.get(interface as usize).ok_or(unknown)?;
        // A simple packet does not tell how much of it was captured.
        let most = if interface.most == 0 { u32::MAX } else { interface.most };
        let captured = captured.unwrap_or_else(|| length.min(most).min(fields.left.len() as u32));
        let bytes = fields.bytes(captured as usize).ok_or(Bad::Wrong("a packet is longer than its block"))?;
        fields.bytes((captured.wrapping_neg() & 3) as usize);
        let mut is_outgoing = None;
        while let Some((option, mut value)) = if kind == PACKET { option(&mut fields) } else { None } {
            if option == FLAGS {
                is_outgoing = value.u32().and_then(|flags| match flags & 3 {
                    INBOUND => Some(false),
                    OUTBOUND => Some(true),
                    _ => None,
                });
            }
        }
        let link = Link::of(interface.link).ok_or(Bad::Link(interface.link))?;
        let time = time.map(|time| interface.nanoseconds(time));
        Ok(Packet { time, link, length: length.max(captured), bytes, is_outgoing })
    }
}

impl Interface {
    /// Returns a time in nanoseconds since 1970. A time outside of what fits is the nearest one.
    fn nanoseconds(&self, time: u64) -> u64 {
        let second = u128::from(SECOND);
        let since = (u128::from(time) * second).checked_div(u128::from(self.resolution)).unwrap_or(0).cast_signed();
        u64::try_from((since + i128::from(self.offset) * second.cast_signed()).max(0)).unwrap_or(u64::MAX)
    }
}

/// Returns the length of a block's body.
fn body(length: u32) -> Result<u32, Bad> {
    // Some programs do not count the padding.
    let padded = length.checked_next_multiple_of(4).ok_or(WRONG_LENGTH)?;
    padded.checked_sub(AROUND).ok_or(WRONG_LENGTH)
}

/// Reads the body of a block, and its length behind it. None if the input ends.
fn whole<R: Read>(order: Order, input: &mut Input<R>, length: u32) -> Result<Option<Fields<'_>>, Bad> {
    if length > MOST_BYTES + MOST_BESIDES {
        return Err(Bad::Wrong("it has a block of more than 1 MiB"));
    }
    let Some(block) = input.rest(length as usize + 4)? else { return Ok(None) };
    let Some((left, again)) = block.split_last_chunk() else { return Err(SHORT) };
    if body(order.u32(*again))? != length {
        return Err(WRONG_LENGTH);
    }
    Ok(Some(Fields { left, order }))
}

/// Takes an option: its number and its value.
fn option<'a>(fields: &mut Fields<'a>) -> Option<(u16, Fields<'a>)> {
    let (number, length) = (fields.u16()?, fields.u16()?);
    let left = fields.bytes(usize::from(length))?;
    fields.bytes((length.wrapping_neg() & 3).into());
    (number != 0).then_some((number, Fields { left, order: fields.order }))
}
