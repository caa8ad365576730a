//! An upgrade that was killed once its program was in force. The next command does what it left to do.

use std::path::Path;

use aya::maps::{Array, Map, MapData};
use ratelimit_common::{
    limits::policy::{COARSE, LIMIT, Policy},
    maps::{control::Control, names},
};
use ratelimit_tests::{Ratelimit, Sandbox};

use crate::PINS;

fn open<V: aya::Pod>(name: &str) -> Array<MapData, V> {
    let map = MapData::from_pin(Path::new(PINS).join(name)).unwrap();
    Map::Array(map).try_into().unwrap()
}

/// Leaves the instance as such an upgrade does: no limit has a lane, and none with a parent uses the coarse clock.
fn interrupt() {
    let (mut policies, mut control) = (open::<Policy>(names::POLICIES), open::<Control>(names::CONTROL));
    for slot in 0..policies.len() {
        let policy = policies.get(&slot, 0).unwrap().in_lane(0);
        policies.set(slot, Policy { flags: policy.flags & !COARSE, ..policy }, 0).unwrap();
    }
    let entry = control.get(&0, 0).unwrap();
    control.set(0, Control { unfinished: 1, ..entry }, 0).unwrap();
}

/// Returns the limits in use with their lanes, and whether they use the coarse clock, and what is unfinished.
fn state() -> (Vec<(u32, bool)>, u32) {
    let policies = open::<Policy>(names::POLICIES);
    let used = (0..policies.len()).map(|slot| policies.get(&slot, 0).unwrap());
    let limits = used.filter(|policy| policy.kind == LIMIT && policy.has_limits());
    let mut found: Vec<_> = limits.map(|policy| (policy.lane(), policy.flags & COARSE != 0)).collect();
    found.sort_unstable();
    (found, open::<Control>(names::CONTROL).get(&0, 0).unwrap().unfinished)
}

#[test]
fn the_next_command_finishes_an_upgrade_that_was_killed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1000/s --parent all=500k/s");
    ratelimit.ok("limit set default --service icmp --packets 10/s --burst 1");
    // The default, its parent, and the limit of the service, which reads the precise clock.
    let (finished, _) = sandbox.victim(state);
    assert_eq!(finished.iter().filter(|(lane, _)| *lane == 0).count(), 1, "{finished:?}");
    assert_eq!(finished.iter().filter(|(_, is_coarse)| *is_coarse).count(), 2, "{finished:?}");
    sandbox.victim(interrupt);
    assert_eq!(sandbox.victim(state), (vec![(0, false); 3], 1));
    ratelimit.ok("deny add 192.0.2.1");
    let (now, unfinished) = sandbox.victim(state);
    assert_eq!((now.len(), unfinished), (3, 0));
    let lanes: Vec<u32> = now.iter().map(|(lane, _)| *lane).collect();
    assert!(lanes[0] == 0 && lanes[1] != 0 && lanes[2] > lanes[1], "{now:?}");
    assert_eq!(now.iter().filter(|(_, is_coarse)| *is_coarse).count(), 2, "{now:?}");
    assert!(now[0].1, "the default uses the coarse clock: {now:?}");
    ratelimit.ok("detach --all");
}
