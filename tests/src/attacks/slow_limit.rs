//! Forged pings under a slow limit, beside newcomers under the fast default.

use ratelimit::dataplane::program::loader::Settings;
use ratelimit_common::limits::limit::{Limit, Rate, SECOND};

use super::{
    row::Row,
    stage::{Stage, forge, in_steps},
};
use crate::{Frame, Sources, per_second};

/// Pings before the newcomers.
const BEFORE: u32 = 1_200_000;
/// Pings in each step: 100,000 per second.
const PINGS: u32 = 100;
const NEWCOMERS: u32 = 2_000;
/// Packets of each newcomer.
const EACH: u32 = 5;

pub(super) fn play() -> Row {
    let mut stage = Stage::new(Settings { services: true, ..Settings::default() });
    let slow = Limit { packets: Some(Rate { amount: 10, period: 60 * SECOND }), ..Limit::default() };
    stage.bytecode.set("default", per_second(1_000, 1_000));
    stage.bytecode.set("default icmp", slow.policy().expect("the limit is invalid"));
    let mut pings = stage.walker(&Frame::echo([192, 0, 2, 1]), 0);
    forge(&mut pings, Sources::Endless, BEFORE);
    in_steps(NEWCOMERS, |number| {
        forge(&mut pings, Sources::Endless, PINGS);
        stage.send(number, EACH);
    });
    let setup = "--packets 1000/s; limit set default --service icmp --packets 10/m";
    stage.row("1.2 M forged pings, then 100,000/s beside 2,000 newcomers", setup, None, 0)
}
