//! The keys of clients, as text.

/// Distance of two keys that follow each other in an order. It has no common factor with the numbers of keys, so that an
/// order has each key once.
const STRIDES: [usize; 2] = [7_368_787, 1_299_709];

/// Returns each key once, in one order for each thread.
pub(super) fn orders(count: usize) -> [Vec<String>; 2] {
    STRIDES.map(|stride| (0..count).map(|place| key(place * stride % count)).collect())
}

/// Returns the key with this number.
pub(super) fn key(number: usize) -> String {
    format!("user-{number:08}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::orders;

    #[test]
    fn each_order_has_each_key_once() {
        for count in [1_000, 100_000, 1_000_000] {
            let [one, other] = orders(count);
            assert_ne!(one, other);
            for order in [one, other] {
                assert_eq!(order.iter().collect::<HashSet<_>>().len(), count);
            }
        }
    }
}
