//! The addresses of many prefixes, so that most entries of long lists are passed over at once.

use std::net::IpAddr;

use ratelimit_base::text::prefix::Prefix;

/// The addresses of prefixes as ranges that do not meet, in order.
pub struct Spans([Vec<(u128, u128)>; 2]);

impl Spans {
    /// Returns those of these prefixes.
    #[must_use]
    pub fn of(prefixes: impl IntoIterator<Item = Prefix>) -> Self {
        let mut families = [Vec::new(), Vec::new()];
        for prefix in prefixes {
            let (family, first, last) = span(prefix);
            families[family].push((first, last));
        }
        for family in &mut families {
            family.sort_unstable();
            // Two prefixes lie inside each other, or apart.
            let mut end = None;
            family.retain(|(_, last)| {
                let is_apart = end.is_none_or(|end| *last > end);
                end = end.max(Some(*last));
                is_apart
            });
        }
        Self(families)
    }

    /// Returns whether a prefix lies inside one of them, or around it.
    #[must_use]
    pub fn meet(&self, prefix: Prefix) -> bool {
        let (family, first, last) = span(prefix);
        let next = self.0[family].partition_point(|(begin, _)| *begin <= last);
        next.checked_sub(1).is_some_and(|before| self.0[family][before].1 >= first)
    }
}

/// Returns the number of the family, and the first and the last address.
fn span(prefix: Prefix) -> (usize, u128, u128) {
    let (family, first, bits) = match prefix.address() {
        IpAddr::V4(v4) => (0, u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (1, v6.to_bits(), 128),
    };
    let others = 1u128.checked_shl(u32::from(bits - prefix.bits())).map_or(u128::MAX, |size| size - 1);
    (family, first, first | others)
}
