//! When sources were first and last seen.

use std::time::Duration;

use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::source::Source,
    limits::{algorithm::Algorithm, policy::Policy},
};
use ratelimit_dataplane::readings::tracked;
use ratelimit_tests::Bytecode;

use crate::{
    front::{Front, with_and_without_cells},
    meters::{ADDRESS, HOUR, frame, limit, settings},
};

const MINUTE: u64 = HOUR / 60;

/// Returns the source as commands list it.
fn listed(bytecode: &Bytecode) -> Bucket {
    let tracked = tracked::all(&bytecode.tables).unwrap();
    tracked.into_iter().find(|(source, _)| *source == Source::v4(ADDRESS)).unwrap().1
}

/// Checks how many minutes before `now` the source was first and last seen. Both may seem one step earlier.
fn check(bucket: &Bucket, now: u64, [first, last]: [u64; 2], what: &str) {
    let [first, last] = [first, last].map(|minutes| Duration::from_nanos(minutes * MINUTE));
    let since_first = Duration::from_nanos(bucket.since_first(now).unwrap());
    let since_last = Duration::from_nanos(bucket.since_last(now).unwrap());
    assert!((first..first + Duration::from_secs(69)).contains(&since_first), "{what}: {since_first:?}");
    assert!((last..last + Duration::from_millis(4_300)).contains(&since_last), "{what}: {since_last:?}");
}

fn packets_that_pass_or_are_refused_are_noted(front: Front) {
    let limits = Algorithm::ALL.map(|algorithm| (algorithm.name(), limit(algorithm, 5, MINUTE)));
    let rules = [("allow", Policy::ALLOWED), ("deny", Policy::DENIED)];
    for (name, policy) in limits.into_iter().chain(rules) {
        let mut bytecode = Bytecode::with(settings(front));
        bytecode.set_time(HOUR);
        bytecode.set("192.0.2.0/24", policy);
        let mut clock = bytecode.clock();
        bytecode.repeat(&frame(ADDRESS), 6);
        check(&listed(&bytecode), HOUR, [0, 0], name);
        clock.advance(10 * MINUTE);
        bytecode.repeat(&frame(ADDRESS), 6);
        check(&listed(&bytecode), HOUR + 10 * MINUTE, [10, 0], name);
        check(&listed(&bytecode), HOUR + 30 * MINUTE, [30, 20], name);
    }
}

with_and_without_cells!(packets_that_pass_or_are_refused_are_noted);
