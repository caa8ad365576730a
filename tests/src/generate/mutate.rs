//! Mutations of a frame.

use super::{
    draft::{Draft, Length},
    kind::Kind,
};

/// Breaks the frame in one way.
pub(super) fn mutate(draft: &mut Draft) {
    let length = draft.frame.len();
    match draft.random.below(100) {
        0..25 => {
            // Mostly after the link header, without which the kernel runs no frame.
            let least = if draft.random.percent(90) { length.min(14) } else { 0 };
            draft.frame.truncate(least + draft.random.below(length + 1 - least));
            draft.kinds.add(Kind::Cut);
        }
        25..40 => {
            let (more, filler) = (draft.random.below(64) + 1, draft.random.among(&[0, 0, 0xff]));
            draft.frame.resize(length + more, filler);
            draft.kinds.add(Kind::Padded);
        }
        40..60 => {
            for _ in 0..=draft.random.below(8) {
                let (at, bit) = (position(draft), draft.random.below(8));
                if let Some(byte) = draft.frame.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            draft.kinds.add(Kind::Flipped);
        }
        60..85 => change_length(draft),
        _ => {
            let (at, count) = (position(draft), draft.random.below(16) + 1);
            let whole = draft.random.among(&[None, None, Some(0), Some(0xff), Some(51), Some(44)]);
            for byte in draft.frame.iter_mut().skip(at).take(count) {
                *byte = whole.unwrap_or(draft.random.next() as u8);
            }
            draft.kinds.add(Kind::Overwritten);
        }
    }
}

/// Returns a random position, more often within headers.
fn position(draft: &mut Draft) -> usize {
    let bound = draft.random.among(&[draft.frame.len(), 64]);
    draft.random.below(bound)
}

/// Changes one length field: to a near value, a bound, or any value.
fn change_length(draft: &mut Draft) {
    if draft.lengths.is_empty() {
        return;
    }
    let any = draft.random.next() as u16;
    let step = draft.random.below(12) as u16 + 1;
    let change = draft.random.below(6);
    let other = |old: u16| match change {
        0 => 0,
        1 => u16::MAX,
        2 => any,
        3 => old.wrapping_add(step),
        _ => old.wrapping_sub(step),
    };
    let length = draft.random.among(&draft.lengths);
    let (Length::Word(at) | Length::Byte(at) | Length::LowNibble(at) | Length::HighNibble(at)) = length;
    match (length, draft.frame.get_mut(at..)) {
        (Length::Word(_), Some([high, low, ..])) => {
            [*high, *low] = other(u16::from_be_bytes([*high, *low])).to_be_bytes();
        }
        (Length::Byte(_), Some([byte, ..])) => *byte = other(u16::from(*byte)) as u8,
        (Length::LowNibble(_), Some([byte, ..])) => *byte = *byte & 0xf0 | other(u16::from(*byte)) as u8 & 0x0f,
        (Length::HighNibble(_), Some([byte, ..])) => {
            *byte = *byte & 0x0f | (other(u16::from(*byte >> 4)) as u8) << 4;
        }
        // The length field is already cut off.
        _ => return,
    }
    draft.kinds.add(Kind::OtherLength);
}
