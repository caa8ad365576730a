use proptest::prelude::*;

use super::{link::Link, *};

const TIME: u64 = 1_700_000_000_123_456_000;

/// Puts numbers in one order.
#[derive(Clone, Copy)]
struct Writer {
    big: bool,
}

impl Writer {
    fn u16(self, number: u16) -> Vec<u8> {
        if self.big { number.to_be_bytes().to_vec() } else { number.to_le_bytes().to_vec() }
    }

    fn u32(self, number: u32) -> Vec<u8> {
        if self.big { number.to_be_bytes().to_vec() } else { number.to_le_bytes().to_vec() }
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| self.u32(*word)).collect()
    }

    fn pcap(self, magic: u32, link: u32, unit: u64, packets: &[(u32, &[u8])]) -> Vec<u8> {
        let mut file = self.words(&[magic, 0x0002_0004, 0, 0, 64, link]);
        for (length, bytes) in packets {
            let fraction = (TIME % 1_000_000_000 / unit) as u32;
            file.extend(self.words(&[(TIME / 1_000_000_000) as u32, fraction, bytes.len() as u32, *length]));
            file.extend_from_slice(bytes);
        }
        file
    }

    fn block(self, kind: u32, body: &[&[u8]]) -> Vec<u8> {
        let mut body = body.concat();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = self.u32(body.len() as u32 + 12);
        [&self.u32(kind)[..], &length, &body, &length].concat()
    }

    fn section(self) -> Vec<u8> {
        self.block(0x0a0d_0d0a, &[&self.words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX])])
    }

    fn interface(self, link: u16, options: &[u8]) -> Vec<u8> {
        self.block(1, &[&self.u16(link), &[0; 2], &self.u32(64), options])
    }

    fn packet(self, interface: u32, time: u64, length: u32, bytes: &[u8], options: &[u8]) -> Vec<u8> {
        let head = self.words(&[interface, (time >> 32) as u32, time as u32, bytes.len() as u32, length]);
        let padding = vec![0; bytes.len().next_multiple_of(4) - bytes.len()];
        self.block(6, &[&head, bytes, &padding, options])
    }
}

const ORDERS: [Writer; 2] = [Writer { big: true }, Writer { big: false }];

type Seen = (Option<u64>, Link, u32, Vec<u8>, Option<bool>);

fn read(file: &[u8]) -> Result<(Vec<Seen>, bool), CaptureError> {
    let (mut capture, mut seen) = (Capture::open(file)?, Vec::new());
    while let Some(packet) = capture.next()? {
        let Packet { time, link, length, bytes, is_outgoing } = packet;
        seen.push((time, link, length, bytes.to_vec(), is_outgoing));
    }
    Ok((seen, capture.is_cut()))
}

fn problem(file: &[u8]) -> String {
    read(file).unwrap_err().to_string()
}

#[test]
fn pcap_has_two_units_and_two_orders() {
    for writer in ORDERS {
        for (magic, unit) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
            let file = writer.pcap(magic, 1, unit, &[(900, &[1, 2, 3]), (2, &[4, 5])]);
            let one = |length, bytes: &[u8]| (Some(TIME), Link::Ethernet, length, bytes.to_vec(), None);
            assert_eq!(read(&file).unwrap(), (vec![one(900, &[1, 2, 3]), one(2, &[4, 5])], false));
        }
    }
}

#[test]
fn pcapng_has_sections_interfaces_and_units() {
    for writer in ORDERS {
        let other = Writer { big: !writer.big };
        // Nanoseconds, and 2^-20 of a second after 1,000 seconds.
        let nano = [&writer.u16(9)[..], &writer.u16(1), &[9, 0, 0, 0], &writer.u32(0)].concat();
        let offset = 1_000u64;
        let offset = if writer.big { offset.to_be_bytes() } else { offset.to_le_bytes() };
        let binary =
            [&writer.u16(9)[..], &writer.u16(1), &[0x80 | 20, 0, 0, 0], &writer.u16(14), &writer.u16(8), &offset];
        let flags = |flags| [&writer.u16(2)[..], &writer.u16(4), &writer.u32(flags), &writer.u32(0)].concat();
        let file = [
            writer.section(),
            writer.interface(1, &[]),
            writer.interface(276, &nano),
            writer.block(5, &[&[7; 40]]),
            writer.packet(0, TIME / 1_000, 70, &[1, 2, 3], &[]),
            writer.packet(1, TIME, 2, &[4, 5], &flags(2)),
            writer.packet(1, TIME, 2, &[4, 5], &flags(1)),
            other.section(),
            other.interface(101, &[]),
            other.block(3, &[&other.u32(100), &[6; 64]]),
            writer.section(),
            writer.interface(101, &binary.concat()),
            writer.packet(0, 3 << 19, 4, &[7; 4], &[]),
        ];
        let seen = [
            (Some(TIME), Link::Ethernet, 70, vec![1, 2, 3], None),
            (Some(TIME), Link::Cooked2, 2, vec![4, 5], Some(true)),
            (Some(TIME), Link::Cooked2, 2, vec![4, 5], Some(false)),
            (None, Link::Ip, 100, vec![6; 64], None),
            (Some(1_001_500_000_000), Link::Ip, 4, vec![7; 4], None),
        ];
        assert_eq!(read(&file.concat()).unwrap(), (seen.to_vec(), false));
    }
}

#[test]
fn a_capture_can_end_anywhere() {
    let writer = Writer { big: false };
    let pcap = writer.pcap(0xa1b2_c3d4, 1, 1_000, &[(60, &[1; 60]), (60, &[2; 60])]);
    let packet = writer.packet(0, TIME, 60, &[1; 60], &[]);
    let pcapng = [writer.section(), writer.interface(1, &[]), packet.clone(), packet].concat();
    for (file, wholes, ends) in [(pcap, vec![24], [100, 176]), (pcapng, vec![28, 48], [140, 232])] {
        assert_eq!(file.len(), ends[1]);
        for length in 1..file.len() {
            match read(&file[..length]) {
                Ok((seen, is_cut)) => {
                    assert_eq!(seen.len(), ends.iter().filter(|end| **end <= length).count());
                    assert_eq!(is_cut, !wholes.iter().chain(&ends).any(|end| *end == length), "{length}");
                }
                Err(error) => {
                    assert!(length < wholes[0], "{length}: {error}");
                    assert_eq!(error.to_string(), CaptureError::NoCapture.to_string());
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_read_has_its_place_and_reason() {
    let writer = Writer { big: false };
    assert!(problem(b"").starts_with("is empty"));
    for file in [&b"abc"[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 100]] {
        assert!(problem(file).starts_with("is no capture"), "{file:?}");
    }
    let wifi = writer.pcap(0xa1b2_c3d4, 127, 1_000, &[(1, &[1])]);
    assert!(problem(&wifi).starts_with("has packets of Wi-Fi in monitor mode (link type 127): "));
    let start = [writer.section(), writer.interface(1, &[])].concat();
    let mut long = writer.packet(0, TIME, 4, &[1; 4], &[]);
    long[20] = 5;
    let mut huge = writer.block(6, &[&[0; 20]]);
    huge[4..8].copy_from_slice(&[0xf0, 0xff, 0xff, 0x7f]);
    let mut unlike = writer.packet(0, TIME, 4, &[1; 4], &[]);
    unlike[32] = 0;
    let fine = [&writer.u16(9)[..], &writer.u16(1), &[100, 0, 0, 0]].concat();
    for (block, reason) in [
        (long, "a packet is longer than its block"),
        (huge, "it has a block of more than 1 MiB"),
        (unlike, "a block has a wrong length"),
        (writer.words(&[6, 8, 8]), "a block has a wrong length"),
        (writer.words(&[6, u32::MAX, 8]), "a block has a wrong length"),
        (writer.block(6, &[&[0; 8]]), "a block is too short"),
        (writer.block(1, &[&[0; 4]]), "a block is too short"),
        (writer.packet(1, TIME, 4, &[1; 4], &[]), "a packet belongs to an interface that is not described"),
        (writer.interface(1, &fine), "an interface has a finer resolution of time than any clock"),
        (writer.interface(1, &[]).repeat(4_096), "a section has more than 4,096 interfaces"),
    ] {
        let good = writer.packet(0, TIME, 4, &[1; 4], &[]);
        let file = [&start[..], &good, &block].concat();
        assert_eq!(problem(&file), format!("is damaged after packet 1: {reason}"));
    }
}

proptest! {
    /// Every number in a file can be anything.
    #[test]
    fn hostile_captures_end(at in 0usize..140, word: u32, more in prop::collection::vec(any::<u8>(), 0..200)) {
        let writer = Writer { big: false };
        let pcap = writer.pcap(0xa1b2_c3d4, 1, 1_000, &[(60, &[1; 60])]);
        let packet = writer.packet(0, TIME, 60, &[1; 60], &[2, 0, 4, 0, 2, 0, 0, 0]);
        let pcapng = [writer.section(), writer.interface(1, &[9, 0, 1, 0, 9, 0, 0, 0]), packet].concat();
        for mut file in [pcap, pcapng] {
            if let Some(place) = file.get_mut(at..at + 4) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            file.extend_from_slice(&more);
            if let Ok((seen, _)) = read(&file) {
                let captured: usize = seen.iter().map(|packet| packet.3.len()).sum();
                prop_assert!(captured <= file.len());
            }
        }
    }
}
