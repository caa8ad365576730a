//! Mutations of a frame.

use super::{Generator, Kind, Length};

impl Generator {
    /// Breaks the frame in one way.
    pub(super) fn mutate(&mut self) {
        let length = self.frame.len();
        match self.random.below(100) {
            0..25 => {
                // Mostly after the link header, without which the kernel runs no frame.
                let least = if self.random.percent(90) { length.min(14) } else { 0 };
                self.frame.truncate(least + self.random.below(length + 1 - least));
                self.kinds.add(Kind::Cut);
            }
            25..40 => {
                let (more, filler) = (self.random.below(64) + 1, self.random.among(&[0, 0, 0xff]));
                self.frame.resize(length + more, filler);
                self.kinds.add(Kind::Padded);
            }
            40..60 => {
                for _ in 0..=self.random.below(8) {
                    let (at, bit) = (self.position(), self.random.below(8));
                    if let Some(byte) = self.frame.get_mut(at) {
                        *byte ^= 1 << bit;
                    }
                }
                self.kinds.add(Kind::Flipped);
            }
            60..85 => self.change_length(),
            _ => {
                let (at, count) = (self.position(), self.random.below(16) + 1);
                let whole = self.random.among(&[None, None, Some(0), Some(0xff), Some(51), Some(44)]);
                for byte in self.frame.iter_mut().skip(at).take(count) {
                    *byte = whole.unwrap_or(self.random.next() as u8);
                }
                self.kinds.add(Kind::Overwritten);
            }
        }
    }

    /// Returns a random position, more often within headers.
    fn position(&mut self) -> usize {
        let bound = self.random.among(&[self.frame.len(), 64]);
        self.random.below(bound)
    }

    /// Changes one length field: to a near value, a bound, or any value.
    fn change_length(&mut self) {
        if self.lengths.is_empty() {
            return;
        }
        let any = self.random.next() as u16;
        let step = self.random.below(12) as u16 + 1;
        let change = self.random.below(6);
        let other = |old: u16| match change {
            0 => 0,
            1 => u16::MAX,
            2 => any,
            3 => old.wrapping_add(step),
            _ => old.wrapping_sub(step),
        };
        let length = self.random.among(&self.lengths);
        let (Length::Word(at) | Length::Byte(at) | Length::LowNibble(at) | Length::HighNibble(at)) = length;
        match (length, self.frame.get_mut(at..)) {
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
        self.kinds.add(Kind::OtherLength);
    }
}
