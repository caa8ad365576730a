//! Datagrams between hosts, without their seals.
//!
//! Each one fits in one packet of every network with IPv6, so that none is cut into fragments. All numbers are
//! little-endian. A datagram that makes no sense is none.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::seal::{Name, SEAL};

/// The most bytes of a datagram with its seal: 1,280 without the headers of IPv6 and UDP.
pub(super) const MOST: usize = 1_232;
/// Records of one datagram.
pub(super) const RECORDS: usize = (MOST - SEAL - HEADER) / RECORD;
/// Addresses of one datagram.
pub(super) const ADDRESSES: usize = 32;
/// The most bytes that a host says about itself.
pub(super) const SAYS: usize = 512;

const MAGIC: [u8; 4] = *b"rlg2";
const HEADER: usize = 41 + ADDRESS;
const RECORD: usize = 44;
const ADDRESS: usize = 18;
/// The most that a host may have counted. An infinite number would stay in a record forever.
const COUNTED: f64 = 1e18;

/// What each datagram begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// The session of the sender, another one for each start.
    pub(super) from: u64,
    /// The session of the receiver, as the sender knows it. 0 if it knows none.
    pub(super) to: u64,
    /// Number of the datagram. It rises within a session.
    pub(super) number: u64,
    /// How many counts the sender has begun.
    pub(super) births: u32,
    /// The weight of the sender.
    pub(super) weight: f64,
    /// The address of the sender on the way to the receiver. Unspecified if it does not know it.
    pub(super) at: SocketAddr,
}

/// What a datagram is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The sender is there.
    Hello,
    /// It has counted packets.
    Counts,
    /// It has gone.
    Leave,
}

/// What a host has counted of one record since it began to count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    pub(super) name: Name,
    /// Which count of the sender this is. A later count begins at 0 again.
    pub(super) birth: u32,
    pub(super) offered: f64,
    pub(super) admitted: f64,
    /// The demand of the sender at its last report.
    pub(super) own: f32,
    /// The level of its record then.
    pub(super) level: f32,
}

/// What a host says of itself, and of others.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Hello {
    pub(super) says: String,
    /// Addresses of hosts that it knows.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Header {
    /// Begins a datagram.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MOST);
        bytes.extend(MAGIC);
        bytes.push(match self.kind {
            Kind::Hello => 0,
            Kind::Counts => 1,
            Kind::Leave => 2,
        });
        [self.from, self.to, self.number].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(self.births.to_le_bytes());
        bytes.extend(self.weight.to_le_bytes());
        write_address(self.at, &mut bytes);
        bytes
    }

    /// Reads the beginning of a datagram, and returns the rest too.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut rest = bytes.strip_prefix(&MAGIC)?;
        let [kind] = take(&mut rest)?;
        let kind = [Kind::Hello, Kind::Counts, Kind::Leave].get(usize::from(kind)).copied()?;
        let mut number = || take(&mut rest).map(u64::from_le_bytes);
        let (from, to, number) = (number()?, number()?, number()?);
        let births = u32::from_le_bytes(take(&mut rest)?);
        let weight = f64::from_le_bytes(take(&mut rest)?);
        let at = read_address(&take(&mut rest)?);
        let is_sound = from != 0 && (0.01..=100.0).contains(&weight);
        is_sound.then_some((Self { kind, from, to, number, births, weight, at }, rest))
    }
}

impl Told {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.name);
        bytes.extend(self.birth.to_le_bytes());
        bytes.extend(self.offered.to_le_bytes());
        bytes.extend(self.admitted.to_le_bytes());
        bytes.extend(self.own.to_le_bytes());
        bytes.extend(self.level.to_le_bytes());
    }

    /// Reads all records of a datagram, or none.
    pub(super) fn read_all(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::with_capacity(RECORDS);
        while !bytes.is_empty() {
            let name = take(&mut bytes)?;
            let birth = u32::from_le_bytes(take(&mut bytes)?);
            let (offered, admitted) = (f64::from_le_bytes(take(&mut bytes)?), f64::from_le_bytes(take(&mut bytes)?));
            let (own, level) = (f32::from_le_bytes(take(&mut bytes)?), f32::from_le_bytes(take(&mut bytes)?));
            let is_sound = [offered, admitted, f64::from(own)].iter().all(|count| (0.0..COUNTED).contains(count))
                && f64::from(level.abs()) < COUNTED;
            if !is_sound || all.len() == RECORDS {
                return None;
            }
            all.push(Self { name, birth, offered, admitted, own, level });
        }
        Some(all)
    }
}

impl Hello {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let says = if self.says.len() > SAYS { "" } else { &self.says };
        bytes.extend((says.len() as u16).to_le_bytes());
        bytes.extend(says.as_bytes());
        self.addresses.iter().take(ADDRESSES).for_each(|address| write_address(*address, bytes));
    }

    pub(super) fn read(mut bytes: &[u8]) -> Option<Self> {
        let length = usize::from(u16::from_le_bytes(take(&mut bytes)?));
        let (says, rest) = bytes.split_at_checked(length).filter(|_| length <= SAYS)?;
        let (addresses, rest) = rest.as_chunks::<ADDRESS>();
        if !rest.is_empty() || addresses.len() > ADDRESSES {
            return None;
        }
        let says = str::from_utf8(says).ok()?.to_owned();
        Some(Self { says, addresses: addresses.iter().map(read_address).collect() })
    }
}

fn write_address(address: SocketAddr, bytes: &mut Vec<u8>) {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    bytes.extend(ip.octets());
    bytes.extend(address.port().to_le_bytes());
}

fn read_address(bytes: &[u8; ADDRESS]) -> SocketAddr {
    let [ip @ .., low, high] = bytes;
    SocketAddr::new(Ipv6Addr::from(*ip).to_canonical(), u16::from_le_bytes([*low, *high]))
}

/// Takes bytes from the beginning.
fn take<const COUNT: usize>(bytes: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(kind: Kind) -> Header {
        Header { kind, from: 7, to: 8, number: 9, births: 10, weight: 0.5, at: "10.0.0.7:7947".parse().unwrap() }
    }

    fn told(offered: f64, own: f32, level: f32) -> Told {
        Told { name: [3; 16], birth: 4, offered, admitted: 1.5, own, level }
    }

    #[test]
    fn what_is_written_is_read() {
        for kind in [Kind::Hello, Kind::Counts, Kind::Leave] {
            let bytes = header(kind).write();
            assert_eq!(bytes.len(), HEADER);
            assert_eq!(Header::read(&bytes), Some((header(kind), &[][..])));
        }
        let all = vec![told(2.5, 3.0, -4.0); RECORDS];
        let mut bytes = header(Kind::Counts).write();
        all.iter().for_each(|told| told.write(&mut bytes));
        assert!(bytes.len() + SEAL <= MOST);
        assert_eq!(Told::read_all(&bytes[HEADER..]), Some(all));

        let addresses = ["10.0.0.1:7947", "[fd00::1]:1"].iter().cycle().take(ADDRESSES);
        let addresses: Vec<_> = addresses.map(|text| text.parse().unwrap()).collect();
        let hello = Hello { says: "x".repeat(SAYS), addresses };
        let mut bytes = header(Kind::Hello).write();
        hello.write(&mut bytes);
        assert!(bytes.len() + SEAL <= MOST);
        assert_eq!(Hello::read(&bytes[HEADER..]), Some(hello));
    }

    #[test]
    fn counts_that_make_no_sense_are_not_read() {
        for wrong in [
            told(f64::NAN, 0.0, 0.0),
            told(-1.0, 0.0, 0.0),
            told(f64::INFINITY, 0.0, 0.0),
            told(1e19, 0.0, 0.0),
            told(1.0, f32::NAN, 0.0),
            told(1.0, -1.0, 0.0),
            told(1.0, 0.0, f32::NAN),
            told(1.0, 0.0, f32::NEG_INFINITY),
        ] {
            let mut bytes = Vec::new();
            wrong.write(&mut bytes);
            assert_eq!(Told::read_all(&bytes), None, "{wrong:?}");
        }
        let mut bytes = Vec::new();
        (0..=RECORDS).for_each(|_| told(1.0, 1.0, 1.0).write(&mut bytes));
        assert_eq!(Told::read_all(&bytes), None);
        for weight in [f64::NAN, 0.0, 1e9] {
            assert_eq!(Header::read(&Header { weight, ..header(Kind::Counts) }.write()), None);
        }
    }

    proptest! {
        #[test]
        fn whatever_bytes_arrive_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..2_000), kind in 0..4u8) {
            let _ = (Header::read(&bytes), Told::read_all(&bytes), Hello::read(&bytes));
            let mut with_header = header(Kind::Hello).write();
            with_header[4] = kind;
            with_header.extend(&bytes);
            if let Some((_, rest)) = Header::read(&with_header) {
                let _ = (Told::read_all(rest), Hello::read(rest));
            }
        }
    }
}
