//! The replies to a segment: the reset that a closed port sends, and the SYN-ACK of an open one.

use super::checksum::{Sum, Words, word};

/// Bytes of a header without options.
pub(super) const LENGTH: usize = 20;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Returns the reset for a first SYN of `length` bytes that begins with `header` (RFC 9293, section 3.10.7.1). Its
/// checksum is zero. Any other segment can belong to a connection of a client whose limit was spent in its name, and gets
/// none. Neither does one whose header contradicts itself.
#[inline(always)]
pub(super) fn reset(header: Words<5>, length: usize) -> Option<Words<5>> {
    let [ports, sequence, _, control, _] = header;
    let [begin, flags, ..] = control.to_ne_bytes();
    let begin = usize::from(begin >> 4) * 4;
    if flags & (FIN | SYN | RST | ACK) != SYN || begin < LENGTH || begin > length {
        return None;
    }
    // The SYN counts as one byte.
    let next = u32::from_be(sequence).wrapping_add((length - begin + 1) as u32);
    let begin = (LENGTH as u8 / 4) << 4;
    Some([ports.rotate_left(16), 0, next.to_be(), word([begin, RST | ACK, 0, 0]), 0])
}

/// Returns the segment with its checksum. `sum` is that of the other covered bytes.
#[inline(always)]
pub(super) fn sealed(segment: Words<5>, sum: Sum) -> Words<5> {
    let [ports, sequence, acknowledgement, control, _] = segment;
    let [first, second] = sum.add(ports).add(sequence).add(acknowledgement).add(control).checksum();
    [ports, sequence, acknowledgement, control, word([first, second, 0, 0])]
}

/// Window of a SYN-ACK with a cookie, which cannot scale it: as Linux has it for frames of 1,500 bytes.
const WINDOW: u16 = 64_240;

/// Returns the SYN-ACK of `words` words for the SYN that begins with `header`. Its checksum is zero.
#[inline(always)]
pub(super) fn syn_ack(header: Words<5>, cookie: u32, words: usize) -> Words<5> {
    let [ports, sequence, ..] = header;
    let acknowledgement = u32::from_be(sequence).wrapping_add(1).to_be();
    let [high, low] = WINDOW.to_be_bytes();
    [ports.rotate_left(16), cookie.to_be(), acknowledgement, word([(words as u8) << 4, SYN | ACK, high, low]), 0]
}

/// Returns the option with the maximum segment size (RFC 9293, section 3.7.1).
#[inline(always)]
pub(super) const fn maximum_segment(size: u16) -> u32 {
    let [high, low] = size.to_be_bytes();
    word([2, 4, high, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(flags: u8, length: usize) -> Option<[[u8; 4]; 5]> {
        let header = [[0, 1, 0, 2], [0xff; 4], [0, 0, 0, 9], [0x60, flags, 1, 1], [7; 4]];
        reset(header.map(word), length).map(|words| words.map(u32::to_ne_bytes))
    }

    /// The sequence number goes around with the SYN.
    #[test]
    fn a_first_syn_is_acknowledged_with_its_data() {
        for (flags, length, next) in [(SYN, 24, 0), (SYN | 0xc8, 24, 0), (SYN, 30, 6)] {
            let expected = [[0, 2, 0, 1], [0; 4], [0, 0, 0, next], [0x50, RST | ACK, 0, 0], [0; 4]];
            assert_eq!(answer(flags, length), Some(expected), "{flags:#x}");
        }
    }

    #[test]
    fn other_segments_and_broken_headers_are_not_answered() {
        for flags in (0..=u8::MAX).filter(|flags| flags & (FIN | SYN | RST | ACK) != SYN) {
            assert_eq!(answer(flags, 30), None, "{flags:#x}");
        }
        for length in [23, 0] {
            assert_eq!(answer(SYN, length), None);
        }
        assert_eq!(reset([0, 0, 0, word([0x40, SYN, 0, 0]), 0], 40), None);
    }
}
