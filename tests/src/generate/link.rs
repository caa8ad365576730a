//! The link header with its tags, and all frames that are not IP.

use super::{
    draft::Draft,
    kind::Kind,
    network::{ipv4, ipv6},
};

const ARP: u16 = 0x0806;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// A non-standard tag type, and MACsec, which may encrypt the rest.
const OTHER_TAG: u16 = 0x9100;
const MACSEC: u16 = 0x88e5;

/// Appends a whole frame.
pub(super) fn link(draft: &mut Draft) {
    draft.bytes(12);
    let tags = draft.random.among(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3]);
    for _ in 0..tags {
        let ether_type = draft.random.among(&TAGS);
        draft.word(ether_type);
        draft.bytes(2);
    }
    draft.kinds.add([Kind::Untagged, Kind::Tagged, Kind::TaggedTwice, Kind::TaggedThrice][tags]);
    match draft.random.below(100) {
        0 => {
            draft.word(OTHER_TAG);
            draft.bytes(2);
            draft.kinds.add(Kind::OtherTag);
        }
        1 => macsec(draft),
        _ => {}
    }
    match draft.random.below(100) {
        0..42 => ipv4(draft),
        42..92 => ipv6(draft),
        92..96 => arp(draft),
        _ => {
            let any = draft.random.next() as u16;
            let ether_type = draft.random.among(&[0x88cc, 0x8035, 0x8847, 0x0600, 0x05dc, 0, 0xffff, any, any]);
            draft.word(ether_type);
            draft.data();
            draft.kinds.add(Kind::OtherType);
        }
    }
}

/// Appends a MACsec tag of an encrypted or plain packet.
fn macsec(draft: &mut Draft) {
    draft.word(MACSEC);
    let flags = draft.random.among(&[0x00, 0x20, 0x0c, 0x2c]);
    draft.byte(flags);
    draft.byte(0);
    draft.bytes(4);
    if flags & 0x20 != 0 {
        draft.bytes(8);
    }
    draft.kinds.add(Kind::Macsec);
}

fn arp(draft: &mut Draft) {
    draft.word(ARP);
    draft.frame.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    draft.bytes(20);
    draft.kinds.add(Kind::Arp);
}
