//! The option of a SYN that decides about its cookie: the maximum segment size (RFC 9293, section 3.7.1).

use crate::{
    packet::frame::{Frame as _, Packet},
    reply::checksum::word,
};

// Kinds of options (RFC 9293, section 3.1).
const END: u8 = 0;
const NOTHING: u8 = 1;
const MAXIMUM_SEGMENT: u8 = 2;

/// Bytes of a TCP header without options.
const HEADER: usize = 20;
/// Words of the same.
const HEADER_WORDS: u8 = 5;
/// Options that are read. No sender has more than a few, and each of 40 bytes may be one.
const MOST: usize = 40;
/// Bits of an offset in the options, for the verifier.
const OFFSETS: usize = 0x3f;

/// Four times an option without a meaning.
pub(super) const NONE: u32 = word([NOTHING; 4]);

/// Returns the option of the TCP header at `begin`, which has so many words; four empty ones if it has none. None if the
/// header contradicts itself.
#[inline(always)]
pub(super) fn option(packet: &Packet, begin: usize, words: u8) -> Option<u32> {
    let length = usize::from(words.checked_sub(HEADER_WORDS)?) * 4;
    let (zero, mut at) = (any_offset(packet, begin)?, 0);
    for _ in 0..MOST {
        let packet = packet.in_loop();
        if at >= length {
            break;
        }
        let kind: u8 = *packet.header_behind(begin + HEADER + at)?;
        let mut size = 1;
        if kind == END {
            break;
        }
        if kind != NOTHING {
            size = usize::from(*packet.header_behind::<u8>(begin + HEADER + at + 1)?);
        }
        if size == 0 || at + size > length || kind != NOTHING && size == 1 {
            break;
        }
        if kind == MAXIMUM_SEGMENT && size == 4 {
            let [high, low] = *packet.header_behind(begin + HEADER + at + 2)?;
            return Some(word([MAXIMUM_SEGMENT, 4, high, low]));
        }
        at = (at + size + zero) & OFFSETS;
    }
    Some(NONE)
}

/// Returns zero, which the verifier takes for any offset. Otherwise it would follow every sum of lengths by itself.
#[inline(always)]
fn any_offset(packet: &Packet, begin: usize) -> Option<usize> {
    let byte: *const u8 = packet.header_behind::<u8>(begin)?;
    // SAFETY: a reference is readable, and nothing writes to the packet meanwhile.
    let [first, second] = unsafe { [byte.read_volatile(), byte.read_volatile()] };
    Some(usize::from(first ^ second))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn read(options: &[u8]) -> Option<[u8; 4]> {
        let mut bytes = Vec::from([0; 7 + HEADER]);
        bytes.extend(options);
        option(&Packet::from(&bytes[..]), 7, HEADER_WORDS + options.len() as u8 / 4).map(u32::to_ne_bytes)
    }

    #[test]
    fn the_maximum_segment_size_is_found_behind_options_of_every_length() {
        assert_eq!(read(&[]), Some([1; 4]));
        assert_eq!(read(&[2, 4, 5, 0xb4]), Some([2, 4, 5, 0xb4]));
        for before in 0..=36 {
            let mut nothing = Vec::from([1; 40]);
            nothing[before..before + 4].copy_from_slice(&[2, 4, 7, 8]);
            assert_eq!(read(&nothing), Some([2, 4, 7, 8]), "{before}");
            if before >= 2 {
                nothing[..2].copy_from_slice(&[254, before as u8]);
                assert_eq!(read(&nothing), Some([2, 4, 7, 8]), "behind an option of {before} bytes");
            }
        }
    }

    #[test]
    fn options_that_contradict_themselves_count_as_none() {
        for options in [[0, 2, 4, 7], [3, 0, 2, 4], [3, 1, 2, 4], [3, 200, 2, 4], [2, 3, 7, 1], [1, 2, 4, 7]] {
            assert_eq!(read(&options), Some([1; 4]), "{options:?}");
        }
        let bytes = [0; 40];
        assert_eq!(option(&Packet::from(&bytes[..]), 0, 4), None);
        // The header says more than the frame has.
        assert_eq!(option(&Packet::from(&[1; 30][..]), 0, 15), None);
    }
}
