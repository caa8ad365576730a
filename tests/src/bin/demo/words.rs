//! Numbers for people.

use std::time::Duration;

/// With a comma between thousands.
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

/// To the hundredth of a million, if it is that large.
pub(crate) fn about(number: u64) -> String {
    if number < 1_000_000 { count(number) } else { format!("{:.2} million", number as f64 / 1e6) }
}

/// Events per second.
pub(crate) fn rate(number: u64, time: Duration) -> String {
    count((number as f64 / time.as_secs_f64()).round() as u64)
}

/// In milliseconds, or a dash where there is none.
pub(crate) fn latency(latency: Option<Duration>) -> String {
    latency.map_or_else(|| "-".to_owned(), |latency| format!("{:.1} ms", latency.as_secs_f64() * 1e3))
}
