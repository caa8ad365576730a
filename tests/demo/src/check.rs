//! The promises of the demo, compared with the counters.

use std::ops::RangeInclusive;

use crate::{
    client::Requests,
    phase::{CLIENT, Limit, SOURCES, Verdict},
    sample,
    stage::{End, Played},
    words,
};

/// Minimum number of packets that counts as a flood.
const FLOOD: u64 = 1_000_000;

/// Packets that the peer's network stack may send by itself.
const STRAY: u64 = 100;

/// One promise.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) text: String,
    pub(crate) held: bool,
}

impl Check {
    fn new(text: impl Into<String>, held: bool) -> Self {
        Self { text: text.into(), held }
    }
}

/// Returns all promises of the demo.
pub(crate) fn all(played: &[Played], requests: &Requests, end: &End) -> Vec<Check> {
    let mut checks = Vec::new();
    for played in played.iter().filter(|played| played.phase.is_limited()) {
        checks.push(client(played, requests));
        let floods = (0..SOURCES.len()).filter(|source| *source != CLIENT);
        checks.extend(floods.filter_map(|source| flood(played, source)));
    }
    let offered = sample::floods(&end.packets).offered;
    checks.push(Check::new(format!("the floods sent {} packets", words::count(offered)), offered >= FLOOD));
    let offered = end.packets.iter().map(|packets| packets.offered).sum::<u64>();
    let text = format!("{} packets were sent in all, {} are counted", words::count(offered), words::count(end.counted));
    checks.push(Check::new(text, (offered..=offered + STRAY).contains(&end.counted)));
    checks.push(Check::new(format!("`ratelimit detach --all` has left {} pins behind", end.pins), end.pins == 0));
    checks
}

/// Checks that the client does not notice the limit.
fn client(played: &Played, requests: &Requests) -> Check {
    let requests = requests.between(played.first.end, played.last.end);
    let (count, failed) = (requests.count(), requests.failed());
    let dropped = played.interval().packets[CLIENT].dropped;
    let name = SOURCES[CLIENT].name;
    Check::new(
        format!("{}: {name} got {} of {count} pages, {dropped} packets dropped", played.phase.name, count - failed),
        count > 0 && failed == 0 && dropped == 0,
    )
}

/// Checks that a flood passes at its limit.
fn flood(played: &Played, source: usize) -> Option<Check> {
    let interval = played.interval();
    let passed = interval.packets[source].passed;
    let expected = match played.phase.verdicts[source] {
        Verdict::Unlimited => return None,
        Verdict::Limited(limit) => bounds(limit, interval.least.as_secs_f64(), interval.most.as_secs_f64()),
        Verdict::Denied => 0..=0,
    };
    let allowed = match (*expected.start(), *expected.end()) {
        (_, 0) => "none".to_owned(),
        (least, most) => format!("{} to {}", words::count(least), words::count(most)),
    };
    let (phase, name) = (played.phase.name, SOURCES[source].name);
    let seconds = interval.time().as_secs_f64();
    let text = format!("{phase}: {name} passed {} packets in {seconds:.2} s, {allowed} expected", words::count(passed));
    Some(Check::new(text, expected.contains(&passed)))
}

/// Returns how many packets may pass in a time between `least` and `most`.
fn bounds(limit: Limit, least: f64, most: f64) -> RangeInclusive<u64> {
    let (rate, burst) = (f64::from(limit.rate), f64::from(limit.burst));
    (0.95 * rate * least) as u64..=(1.02 * (burst + rate * most)) as u64
}
