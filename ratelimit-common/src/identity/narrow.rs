//! Narrow rules: rules for parts of an IPv6 source, such as a /96 where sources are /64. Each such part is a source of
//! its own.
//!
//! The program has to find the longest such part around an address. A list of the lengths in use and the
//! [filter](crate::identity::filter) tell it where to look.

/// The lengths of narrow prefixes with rules, one byte each: the longest in the lowest byte, 0 behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lengths(pub u32);

/// Largest number of lengths in a list.
pub const MOST_LENGTHS: u32 = 4;

impl Lengths {
    /// More lengths than fit. The filter tells which sources have parts with rules, but not which parts.
    pub const MANY: Self = Self(u32::MAX);

    /// Returns the length at this place of the list, 0 behind the last.
    #[inline(always)]
    #[must_use]
    pub const fn at(self, place: u32) -> u8 {
        (self.0 >> (8 * place)) as u8
    }

    /// Returns the lengths in the list. There are none if there are [many](Self::MANY).
    pub fn all(self) -> impl Iterator<Item = u8> {
        let places = if self == Self::MANY { 0 } else { MOST_LENGTHS };
        (0..places).map(move |place| self.at(place)).filter(|length| *length != 0)
    }

    /// Returns the list with one more length.
    #[must_use]
    pub fn with(self, length: u8) -> Self {
        if self == Self::MANY || self.all().any(|known| known == length) {
            return self;
        }
        if self.at(MOST_LENGTHS - 1) != 0 {
            return Self::MANY;
        }
        let longer = self.all().filter(|known| *known > length).count() as u32;
        let behind = self.0 & u32::MAX.checked_shl(8 * longer).unwrap_or(0);
        Self(self.0 ^ behind | behind << 8 | u32::from(length) << (8 * longer))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_has_every_length_once_with_the_longest_first(lengths in prop::collection::vec(1u8..=128, 0..7)) {
            let list = lengths.iter().fold(Lengths::default(), |list, length| list.with(*length));
            let mut expected = lengths;
            expected.sort_unstable_by(|one, other| other.cmp(one));
            expected.dedup();
            if expected.len() > MOST_LENGTHS as usize {
                prop_assert_eq!(list, Lengths::MANY);
            } else {
                prop_assert_eq!(list.all().collect::<Vec<_>>(), expected);
            }
        }
    }
}
