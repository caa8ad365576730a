//! Formatting of numbers.

use std::time::Duration;

/// Formats a number with thousands separators.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number, with two decimals from a million on.
pub(crate) fn about(number: u64) -> String {
    if number < 1_000_000 { count(number) } else { format!("{:.2} million", number as f64 / 1e6) }
}

/// Formats events per second.
pub(crate) fn rate(number: u64, time: Duration) -> String {
    count((number as f64 / time.as_secs_f64()).round() as u64)
}

/// Formats milliseconds, or a dash without a value.
pub(crate) fn latency(latency: Option<Duration>) -> String {
    latency.map_or_else(|| "-".to_owned(), |latency| format!("{:.1} ms", latency.as_secs_f64() * 1e3))
}
