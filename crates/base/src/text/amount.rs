//! Large numbers for people.

/// Returns a number with groups of digits, and from a million on in millions: `950`, `200,000`, `3.1 M`.
pub fn amount(number: u64) -> String {
    if number >= 1_000_000 {
        return format!("{:.1} M", number as f64 / 1e6);
    }
    if number >= 1_000 { format!("{},{:03}", number / 1_000, number % 1_000) } else { number.to_string() }
}

/// Returns a number with two digits that are not zero: for estimates.
pub fn about(number: u64) -> u64 {
    let unit = 10u64.pow(number.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (number / unit + u64::from(number % unit >= unit.div_ceil(2))).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::{about, amount};

    #[test]
    fn thousands_have_a_comma_and_millions_a_letter() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (200_050, "200,050"), (3_149_000, "3.1 M")] {
            assert_eq!(amount(number), text);
        }
    }

    #[test]
    fn estimates_have_two_digits() {
        for (number, text) in
            [(0, 0), (7, 7), (99, 99), (187_365, 190_000), (1_049, 1_000), (u64::MAX, 18_000_000_000_000_000_000)]
        {
            assert_eq!(about(number), text);
        }
    }
}
