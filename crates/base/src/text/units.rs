//! Rates and durations as text.

use std::{fmt, str::FromStr, time::Duration};

use ratelimit_common::limits::limit::{DAY, Rate, SECOND};

const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Units of time by name. The longest comes first, so that a rate is written with the longest unit that fits.
const TIMES: [(&str, u64); 4] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)];

/// Packets by suffix.
const COUNTS: [(&str, u64); 4] = [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000), ("", 1)];

/// Bytes by suffix.
const SIZES: [(&str, u64); 4] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)];

/// Bits by suffix.
const BITS: [(&str, u64); 4] = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

/// Text that cannot be parsed as a rate or duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{expected}")]
pub struct UnitError {
    expected: &'static str,
}

impl UnitError {
    /// Returns the error that names what was expected.
    pub const fn new(expected: &'static str) -> Self {
        Self { expected }
    }
}

const PACKETS_EXPECTED: UnitError =
    UnitError { expected: "expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m" };
const BYTES_EXPECTED: UnitError =
    UnitError { expected: "expected bytes or bits per s, m, h or d, such as 10MB/s or 100Mbit/s" };
/// A rate of zero.
pub const ZERO_RATE: UnitError =
    UnitError { expected: "a rate of zero would drop every packet: use `ratelimit deny add` for that" };
const DURATION_EXPECTED: UnitError =
    UnitError { expected: "expected a number and s, m, h or d, such as 90s, 10m, 2h or 7d; without a letter, seconds" };
/// A time that is too long to be counted in nanoseconds.
const LONG_DURATION: UnitError = UnitError { expected: "expected at most 213503d, which is 584 years" };
/// The longest time, about 584 years.
pub const LONGEST: Duration = Duration::from_nanos(u64::MAX);
/// A time of zero.
const ZERO_DURATION: UnitError = UnitError { expected: "expected a time above 0, such as 90s, 10m, 2h or 7d" };

/// A rate of packets: `1000/s`, `1.5k/s`, `500/h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRate(pub Rate);

/// A rate of bytes: `10MB/s`, `100Mbit/s`. Suffixes are decimal: a kB is 1,000 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRate(pub Rate);

impl FromStr for PacketRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (amount, unit, period) = split_rate(text).ok_or(PACKETS_EXPECTED)?;
        let factor = lookup(&COUNTS, unit).ok_or(PACKETS_EXPECTED)?;
        Ok(Self(amount.rate(factor, 1, period, PACKETS_EXPECTED)?))
    }
}

impl FromStr for ByteRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (amount, unit, period) = split_rate(text).ok_or(BYTES_EXPECTED)?;
        if let Some(factor) = lookup(&SIZES, unit) {
            return Ok(Self(amount.rate(factor, 1, period, BYTES_EXPECTED)?));
        }
        let factor = lookup(&BITS, unit).ok_or(BYTES_EXPECTED)?;
        Ok(Self(amount.rate(factor, 8, period, BYTES_EXPECTED)?))
    }
}

impl fmt::Display for PacketRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rate(f, self.0, &COUNTS)
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rate(f, self.0, &SIZES)
    }
}

/// Parses `90s`, `10m`, `2h`, `7d`, and a number of seconds.
///
/// # Errors
///
/// Fails with what was expected.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let split = text.len() - text.chars().last().map_or(0, char::len_utf8);
    let is_seconds = text.bytes().all(|byte| byte.is_ascii_digit());
    let (amount, unit) = if is_seconds { (text, "s") } else { text.split_at(split) };
    let unit = lookup(&TIMES, unit).ok_or(DURATION_EXPECTED)?;
    if amount.is_empty() || !amount.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DURATION_EXPECTED);
    }
    let amount: u64 = amount.parse().map_err(|_| LONG_DURATION)?;
    let nanoseconds = amount.checked_mul(unit).ok_or(LONG_DURATION)?;
    if nanoseconds == 0 {
        return Err(ZERO_DURATION);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Parses how long a rule lasts. A time that is too long to be counted is [`LONGEST`], which does not end.
///
/// # Errors
///
/// Fails with what was expected.
pub fn lifetime(text: &str) -> Result<Duration, UnitError> {
    match duration(text) {
        Err(LONG_DURATION) => Ok(LONGEST),
        outcome => outcome,
    }
}

/// Writes whole seconds in the two largest units: `2h5m`.
#[must_use]
pub fn write_duration(duration: Duration) -> String {
    let mut rest = duration.as_secs() * SECOND;
    let mut text = String::new();
    for (name, unit) in TIMES {
        if rest >= unit && text.matches(char::is_alphabetic).count() < 2 {
            text += &format!("{}{name}", rest / unit);
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Writes whole seconds in one unit, so that [`duration`] reads the same value: `125m`.
#[must_use]
pub fn exact_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_secs() * SECOND;
    let (name, unit) = TIMES.into_iter().find(|(_, unit)| nanoseconds.is_multiple_of(*unit)).unwrap_or(("s", SECOND));
    format!("{}{name}", nanoseconds / unit)
}

/// A decimal number without loss: `digits` divided by `scale`, a power of ten.
struct Decimal {
    digits: u64,
    scale: u64,
}

impl FromStr for Decimal {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let complete = !whole.is_empty() && fraction.is_empty() != text.contains('.');
        if !complete || !plain(whole) || !plain(fraction) || fraction.len() > 9 {
            return Err(());
        }
        let digits = format!("{whole}{fraction}").parse().map_err(|_| ())?;
        Ok(Self { digits, scale: 10u64.pow(fraction.len() as u32) })
    }
}

impl Decimal {
    /// Returns the rate of this number times `factor / divisor` per `period`, reduced.
    fn rate(&self, factor: u64, divisor: u64, period: u64, error: UnitError) -> Result<Rate, UnitError> {
        let amount = u128::from(self.digits) * u128::from(factor);
        if amount == 0 {
            return Err(ZERO_RATE);
        }
        let scale = u128::from(self.scale) * u128::from(divisor);
        let shared = greatest_common_divisor(amount, scale);
        let amount = u64::try_from(amount / shared).map_err(|_| error.clone())?;
        let period = u64::try_from(scale / shared * u128::from(period)).map_err(|_| error)?;
        Ok(Rate { amount, period })
    }
}

/// Splits `1.5k/s` into 1.5, `k` and a second.
fn split_rate(text: &str) -> Option<(Decimal, &str, u64)> {
    let (amount, period) = text.split_once('/')?;
    let period = lookup(&TIMES, period)?;
    let unit = amount.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(amount.len());
    let (number, unit) = amount.split_at(unit);
    Some((number.parse().ok()?, unit, period))
}

fn lookup(table: &[(&str, u64)], name: &str) -> Option<u64> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

fn write_rate(f: &mut fmt::Formatter<'_>, rate: Rate, suffixes: &[(&str, u64)]) -> fmt::Result {
    let (name, unit) = TIMES.into_iter().find(|(_, unit)| rate.period.is_multiple_of(*unit)).unwrap_or(("s", SECOND));
    // The period is several units if the amount had decimals.
    let parts = rate.period / unit;
    let fits = |factor: u64| u128::from(rate.amount) * 1_000 % (u128::from(parts) * u128::from(factor)) == 0;
    let large = |factor: u64| rate.amount / parts >= factor.saturating_mul(if factor == 1_000 { 10 } else { 1 });
    let (suffix, factor) = suffixes
        .iter()
        .copied()
        .find(|&(_, factor)| large(factor) && fits(factor))
        .unwrap_or(suffixes[suffixes.len() - 1]);
    let billionths = u128::from(rate.amount) * 1_000_000_000 / (u128::from(parts) * u128::from(factor));
    let (whole, fraction) = (billionths / 1_000_000_000, billionths % 1_000_000_000);
    write!(f, "{whole}")?;
    if fraction > 0 {
        write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))?;
    }
    write!(f, "{suffix}/{name}")
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packets(text: &str) -> Option<(u64, u64)> {
        text.parse().ok().map(|PacketRate(rate)| (rate.amount, rate.period))
    }

    fn bytes(text: &str) -> Option<(u64, u64)> {
        text.parse().ok().map(|ByteRate(rate)| (rate.amount, rate.period))
    }

    #[test]
    fn rates_are_read() {
        assert_eq!(packets("1000/s"), Some((1_000, SECOND)));
        assert_eq!(packets("1.5k/s"), Some((1_500, SECOND)));
        assert_eq!(packets("500/h"), Some((500, HOUR)));
        assert_eq!(packets("3/m"), Some((3, MINUTE)));
        assert_eq!(packets("0.5/s"), Some((1, 2 * SECOND)));
        assert_eq!(packets("100M/s"), Some((100_000_000, SECOND)));
        assert_eq!(bytes("10MB/s"), Some((10_000_000, SECOND)));
        assert_eq!(bytes("100Mbit/s"), Some((12_500_000, SECOND)));
        assert_eq!(bytes("1bit/s"), Some((1, 8 * SECOND)));
        assert_eq!(bytes("1.5kB/m"), Some((1_500, MINUTE)));
    }

    #[test]
    fn invalid_rates_are_refused() {
        for text in [
            "",
            "/",
            "/s",
            "1000",
            "1000/",
            "5/fortnight",
            "1e99/s",
            "-1/s",
            "+1/s",
            "1./s",
            ".5/s",
            "1 /s",
            "1K/s",
            "0/s",
            "0.0/s",
            "1/s/s",
        ] {
            assert_eq!(packets(text), None, "{text:?}");
        }
        for text in ["99999999999999999999/s", "1.0000000001/s", "10MB", "10/s", "10mb/s", "1e3B/s"] {
            assert_eq!(bytes(text), None, "{text:?}");
        }
        assert_eq!("0/s".parse::<PacketRate>(), Err(ZERO_RATE));
    }

    #[test]
    fn durations_are_read_and_written() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        for text in ["", "s", "-5", "+5", "1.5", "1.5h", "10 m", "10ü", "-99999999999999999d"] {
            assert_eq!(duration(text), Err(DURATION_EXPECTED), "{text:?}");
        }
        for text in ["213504d", "99999999999999999d", "18446744074", "99999999999999999999999"] {
            assert_eq!(duration(text), Err(LONG_DURATION), "{text:?}");
            assert_eq!(lifetime(text), Ok(LONGEST), "{text:?}");
        }
        assert_eq!(lifetime("213503d"), Ok(Duration::from_secs(213_503 * 86_400)));
        for text in ["0", "0s", "000d"] {
            assert_eq!(duration(text), Err(ZERO_DURATION), "{text:?}");
        }
        assert_eq!(write_duration(Duration::from_secs(7_500)), "2h5m");
        assert_eq!(write_duration(Duration::from_millis(900)), "0s");
    }

    proptest! {
        #[test]
        fn written_rates_read_the_same(amount in 1u64..10_000_000_000, decimals in 0usize..4, suffix in 0usize..4, time in 0usize..4) {
            let digits = format!("{amount:04}");
            let (whole, fraction) = digits.split_at(digits.len() - decimals);
            let number = if decimals == 0 { whole.to_owned() } else { format!("{whole}.{fraction}") };
            let (count, size, unit) = (COUNTS[suffix].0, SIZES[suffix].0, TIMES[time].0);
            let packets: PacketRate = format!("{number}{count}/{unit}").parse()?;
            prop_assert_eq!(packets.to_string().parse::<PacketRate>()?, packets);
            let bytes: ByteRate = format!("{number}{size}/{unit}").parse()?;
            prop_assert_eq!(bytes.to_string().parse::<ByteRate>()?, bytes);
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = (text.parse::<PacketRate>(), text.parse::<ByteRate>(), duration(&text));
        }
    }
}
