//! G2 and G3: the rate that a source gets when it offers far more over a long time.

use ratelimit_common::{
    limits::limit::{DAY, Limit, Rate, SECOND},
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Frame, tokens};

use crate::front::{Front, with_and_without_cells};

/// Offers `per_step` packets every `step` nanoseconds, and returns how many were admitted.
fn offer(bytecode: &mut Bytecode, frame: &[u8], step: u64, steps: u64, per_step: u32) -> u64 {
    let before = bytecode.count(Reason::WithinLimit);
    // An odd start time avoids accidental alignment.
    let start = 1_234_567_891;
    for index in 0..=steps {
        bytecode.set_time(start + index * step);
        bytecode.repeat(frame, per_step);
    }
    bytecode.count(Reason::WithinLimit) - before
}

fn a_limit_of_ten_per_second_holds_under_a_million_per_second(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let rate = Rate { amount: 10, period: SECOND };
    bytecode.set_default(&Limit { packets: Some(rate), burst: Some(1), ..Limit::default() }.policy().unwrap());
    let frame = Frame::udp([192, 0, 2, 1], 9).bytes();
    let seconds = 30;
    // A thousand packets per millisecond.
    let admitted = offer(&mut bytecode, &frame, SECOND / 1_000, seconds * 1_000, 1_000);
    assert_eq!(admitted, 1 + 10 * seconds);
    assert_eq!(bytecode.count(Reason::OverPackets), 1_000 * (seconds * 1_000 + 1) - admitted);
}

fn every_packet_rate_is_accurate_within_a_thousandth(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let rates = [
        (1, DAY),
        (7, DAY),
        (500, 3_600 * SECOND),
        (3, 60 * SECOND),
        (15, SECOND),
        (999, SECOND),
        (1_000_000, SECOND),
        (3_333_333, SECOND),
        (33_333_333, SECOND),
        (99_999_989, SECOND),
        (100_000_000, SECOND),
    ];
    for (index, (amount, period)) in rates.into_iter().enumerate() {
        let rate = Rate { amount, period };
        let policy = Limit { packets: Some(rate), burst: Some(10), ..Limit::default() }.policy().unwrap();
        bytecode.set_default(&policy);
        let frame = Frame::udp([192, 0, 2, index as u8], 9).bytes();
        // Each step offers twice the rate, for the time of 20,000 packets. Fast limits return several tokens per step.
        let step = (period / amount).max(1_000);
        let per_step = u32::try_from(2 * step * amount / period).unwrap().max(2);
        let steps = 20_000 / u64::from(per_step / 2);
        let admitted = offer(&mut bytecode, &frame, step, steps, per_step);
        let mut model = tokens::Tokens::full(rate, 10, 0);
        let mut exact = 0;
        for time in (0..=steps).map(|index| index * step) {
            model.advance(time);
            exact += (0..per_step).filter(|_| model.take(1)).count() as u64;
        }
        let difference = admitted.abs_diff(exact);
        assert!(difference <= 1 + exact / 1_000, "{amount} per {period} ns: {admitted} instead of {exact}");
    }
}

fn every_byte_rate_is_accurate_within_a_thousandth(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let rates = [1, 1_000, 1_234_567, 125_000_000, 12_500_000_000, 49_999_999_999, 50_000_000_000];
    for (index, (amount, length)) in rates.into_iter().flat_map(|amount| [(amount, 60), (amount, 1_514)]).enumerate() {
        let rate = Rate { amount, period: SECOND };
        bytecode.set_default(&Limit { bytes: Some(rate), burst: Some(4), ..Limit::default() }.policy().unwrap());
        let frame = Frame::udp([192, 0, 2, index as u8], 9).length(length).bytes();
        let step = (length as u64 * SECOND / amount).max(1);
        let per_step = u32::try_from(2 * step * amount / SECOND / length as u64).unwrap().max(2);
        let steps = 10_000;
        let admitted = offer(&mut bytecode, &frame, step, steps, per_step);
        let time = steps * step;
        let flow = (u128::from(amount) * u128::from(time) / u128::from(SECOND)) as u64;
        // The result lies between the flow alone, and the flow plus the burst, within one packet.
        let (least, most) = (flow / length as u64, (flow + 4 * 1_514) / length as u64);
        assert!(admitted >= least - 1 - least / 1_000, "{amount} B/s by {length}: {admitted} below {least}");
        assert!(admitted <= most + 1 + most / 1_000, "{amount} B/s by {length}: {admitted} above {most}");
    }
}

with_and_without_cells!(
    a_limit_of_ten_per_second_holds_under_a_million_per_second,
    every_packet_rate_is_accurate_within_a_thousandth,
    every_byte_rate_is_accurate_within_a_thousandth,
);
