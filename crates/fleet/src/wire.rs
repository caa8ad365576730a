//! Reports and answers as the engine's script reads and writes them: numbers in eight bytes each.

use ratelimit_common::fleet::share::{Answer, Limit, Report, Terms};

use crate::error::Error;

/// Bytes of a number.
const NUMBER: usize = 8;
/// Bytes of a report.
pub(super) const REPORT: usize = 7 * NUMBER;

/// What the engine answers to some reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Time of its clock, in seconds.
    pub time: f64,
    /// One for each report, in the same order.
    pub answers: Vec<Answer>,
}

/// Writes the terms.
pub(super) fn terms(terms: &Terms) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 * NUMBER);
    write(&mut bytes, [terms.period, terms.floor, terms.least]);
    bytes
}

/// Adds a report.
pub(super) fn write_report(bytes: &mut Vec<u8>, limit: &Limit, report: &Report) {
    let Report { offered, admitted, own, weight, record } = *report;
    write(bytes, [limit.rate, limit.burst, offered, admitted, own, weight, record as f64]);
}

fn write<const COUNT: usize>(bytes: &mut Vec<u8>, numbers: [f64; COUNT]) {
    bytes.extend_from_slice(numbers.map(f64::to_le_bytes).as_flattened());
}

/// Reads the answers to `count` reports.
pub(super) fn read(bytes: &[u8], count: usize, least: f64) -> Result<Answers, Error> {
    let (numbers, rest) = bytes.as_chunks::<NUMBER>();
    let [time, answers @ ..] = numbers else { return Err(Error::Garbage("it is empty")) };
    if answers.len() != 2 * count || !rest.is_empty() {
        return Err(Error::Garbage("it has another number of answers"));
    }
    let (answers, _) = answers.as_chunks::<2>();
    let answers = answers.iter().map(|[record, share]| {
        let (record, share) = (number(*record)?, number(*share)?);
        // Larger numbers are not exact.
        if !(1.0..=9_007_199_254_740_992.0).contains(&record) || record.fract() != 0.0 {
            return Err(Error::Garbage("a record has no whole number"));
        }
        if share != 0.0 && !(least..=1.0).contains(&share) {
            return Err(Error::Garbage("a share is not between the least one and 1"));
        }
        Ok(Answer { share: (share != 0.0).then_some(share), record: record as u64 })
    });
    Ok(Answers { time: number(*time)?, answers: answers.collect::<Result<_, _>>()? })
}

/// Reads a number that is finite.
fn number(bytes: [u8; NUMBER]) -> Result<f64, Error> {
    let number = f64::from_le_bytes(bytes);
    if number.is_finite() { Ok(number) } else { Err(Error::Garbage("a value is not a number")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(numbers: &[f64], count: usize) -> Result<Answers, Error> {
        let bytes: Vec<_> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        read(&bytes, count, 0.001)
    }

    #[test]
    fn answers_have_a_record_and_perhaps_a_share() {
        let expected = vec![Answer { share: Some(0.25), record: 7 }, Answer { share: None, record: 8 }];
        let answers = answer(&[12.5, 7.0, 0.25, 8.0, 0.0], 2).unwrap();
        assert_eq!(answers, Answers { time: 12.5, answers: expected });
    }

    #[test]
    fn answers_that_make_no_sense_are_errors() {
        for (numbers, count) in [
            (&[][..], 0),
            (&[1.0], 1),
            (&[1.0, 7.0], 1),
            (&[1.0, 7.0, 0.5, 8.0, 0.5], 1),
            (&[f64::NAN, 7.0, 0.5], 1),
            (&[1.0, 0.0, 0.5], 1),
            (&[1.0, 1.5, 0.5], 1),
            (&[1.0, -7.0, 0.5], 1),
            (&[1.0, 1e300, 0.5], 1),
            (&[1.0, f64::INFINITY, 0.5], 1),
            (&[1.0, 7.0, f64::NAN], 1),
            (&[1.0, 7.0, -1.0], 1),
            (&[1.0, 7.0, 1.1], 1),
            (&[1.0, 7.0, 0.000_1], 1),
        ] {
            assert!(matches!(answer(numbers, count), Err(Error::Garbage(_))), "{numbers:?}");
        }
        for bytes in [&b"1"[..], b"12345678 ", &[0; 23]] {
            assert!(read(bytes, 1, 0.001).is_err());
        }
    }
}
