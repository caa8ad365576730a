//! Forged sources spend the admission budget under a limit with a parent, beside clients without a bucket.

use ratelimit::dataplane::{
    program::loader::Settings,
    rules::spec::{ParentLimit, RuleSpec, Scope},
};

use super::{
    row::Row,
    stage::{PORT, Stage, forge, in_steps},
};
use crate::{Frame, Sources, per_second};

/// Forged sources in each step: 30,000 per second, where each CPU may create 10,000 buckets.
const FORGED: u32 = 30;
/// Steps of the flood alone, until the burst of the budget is spent.
const ALONE: u32 = 500;
const CLIENTS: u32 = 2_000;
/// Packets of each client.
const EACH: u32 = 5;

pub(super) fn play() -> Row {
    let mut stage = Stage::new(Settings { parents: true, ..Settings::default() });
    let parents = vec![ParentLimit { scope: Scope::All, policy: per_second(10_000_000, 10_000_000) }];
    stage.bytecode.set("default", RuleSpec { policy: per_second(100, 100), parents });
    let mut forged = stage.walker(&Frame::udp([192, 0, 2, 1], PORT), 0);
    in_steps(ALONE, |_| forge(&mut forged, Sources::Endless, FORGED));
    in_steps(CLIENTS, |number| {
        forge(&mut forged, Sources::Endless, FORGED);
        stage.send(number, EACH);
    });
    let attack = "30,000 forged sources per second beside 2,000 clients without a bucket";
    stage.row(attack, "--packets 100/s --parent all=10M/s", None, 0)
}
