//! Cached refusals: a cell repeats them until the rule changes.

use std::{net::Ipv6Addr, time::Duration};

use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::{DAY, SECOND},
        policy::Policy,
    },
    reason::Reason,
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{program::loader::Settings, readings::tracked, rules::batch, sys::host};
use ratelimit_tests::{Bytecode, Frame, per_second};

use super::{hourly, repeated};

const ADDRESS: [u8; 4] = [192, 0, 2, 7];

fn frame() -> Vec<u8> {
    Frame::udp(ADDRESS, 9).bytes()
}

/// Sends until a cached refusal drops packets with this reason.
#[track_caller]
fn until_cached(bytecode: &Bytecode, reason: Reason) {
    bytecode.repeat(&frame(), 30);
    let before = repeated(bytecode);
    assert_eq!(bytecode.reason(&frame()), reason);
    assert_eq!(repeated(bytecode), before + 1, "no cached refusal dropped the packet");
}

/// Each row has a rule and its reason, then a change and the reason of the next packet.
#[test]
fn a_cached_refusal_ends_when_its_rule_changes() {
    type Change = fn(&mut Bytecode);
    let changes: [(&str, Policy, Reason, Change, Reason); 11] = [
        (
            "default",
            per_second(1, 1),
            Reason::OverPackets,
            |it| it.set("default", per_second(1, 100)),
            Reason::WithinLimit,
        ),
        ("default", hourly(1), Reason::OverPackets, |it| it.set("192.0.2.7", Policy::ALLOWED), Reason::Allowed),
        ("default", hourly(1), Reason::OverPackets, |it| it.set("192.0.0.0/9", Policy::ALLOWED), Reason::Allowed),
        ("default", hourly(1), Reason::OverPackets, |it| it.set("192.0.2.7", Policy::DENIED), Reason::Denied),
        ("default", hourly(1), Reason::OverPackets, |it| it.delete("default"), Reason::WithinLimit),
        ("default", Policy::DENIED, Reason::Denied, |it| it.delete("default"), Reason::WithinLimit),
        ("default", Policy::DENIED, Reason::Denied, |it| it.set("default", hourly(1)), Reason::WithinLimit),
        ("192.0.2.7", Policy::DENIED, Reason::Denied, |it| it.delete("192.0.2.7"), Reason::WithinLimit),
        ("192.0.2.0/24", Policy::DENIED, Reason::Denied, |it| it.set("192.0.2.7", hourly(1)), Reason::WithinLimit),
        ("192.0.2.0/24", hourly(1), Reason::OverPackets, |it| it.delete("192.0.2.0/24"), Reason::WithinLimit),
        (
            "192.0.2.7",
            hourly(1),
            Reason::OverPackets,
            |it| it.set("192.0.2.7", per_second(1, 9_999)),
            Reason::WithinLimit,
        ),
    ];
    for (number, (target, policy, before, change, after)) in changes.into_iter().enumerate() {
        let mut bytecode = Bytecode::with(crate::settings());
        bytecode.set_time(SECOND);
        bytecode.set(target, policy);
        until_cached(&bytecode, before);
        change(&mut bytecode);
        assert_eq!(bytecode.reason(&frame()), after, "change {number}: {target}");
    }
}

#[test]
fn a_cached_refusal_ends_with_its_temporary_rule() {
    for (policy, reason) in [(Policy::DENIED, Reason::Denied), (hourly(1), Reason::OverPackets)] {
        let mut bytecode = Bytecode::with(crate::settings());
        let begin = host::now();
        bytecode.set_time(begin);
        let (target, life) = ("192.0.2.7".parse().unwrap(), Duration::from_secs(30));
        batch::set(&mut bytecode.tables, target, &policy.into(), Some(life), COMMAND).unwrap();
        let set_by = host::now();
        until_cached(&bytecode, reason);
        bytecode.set_time(begin + 30 * SECOND - 1);
        assert_eq!(bytecode.reason(&frame()), reason);
        bytecode.set_time(set_by + 30 * SECOND);
        assert_eq!(bytecode.reason(&frame()), Reason::WithinLimit);
    }
}

/// If no rule is near a source, the program skips the rule lookup.
#[test]
fn a_new_rule_applies_to_a_source_that_its_cell_admits() {
    let (v4, v6) = ([198, 51, 100, 7], "2001:db8::7".parse::<Ipv6Addr>().unwrap());
    for (frame, source, targets) in [
        (
            Frame::udp(v4, 9).bytes(),
            Source::v4(v4),
            ["198.51.100.7", "198.51.100.0/24", "198.51.0.0/16", "198.50.0.0/15", "128.0.0.0/1"],
        ),
        (
            Frame::udp(v6, 9).bytes(),
            Source::v6(v6.octets(), 64),
            ["2001:db8::7", "2001:db8::/64", "2001:db8::/32", "2001:d00::/24", "2000::/3"],
        ),
    ] {
        for target in targets {
            let mut bytecode = Bytecode::with(crate::settings());
            bytecode.set_time(SECOND);
            bytecode.set("default", per_second(1_000, 1_000));
            assert_eq!(bytecode.filters()(&source), [false; 2]);
            bytecode.repeat(&frame, 100);
            assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
            for (policy, reason) in [(Policy::DENIED, Reason::Denied), (Policy::ALLOWED, Reason::Allowed)] {
                bytecode.set(target, policy);
                assert_eq!(bytecode.reason(&frame), reason, "{target}");
                bytecode.delete(target);
                assert_eq!(bytecode.filters()(&source), [false; 2]);
                assert_eq!(bytecode.reason(&frame), Reason::WithinLimit, "{target}");
            }
        }
    }
}

/// Clock values wrap. A cached refusal that ended long ago must not become valid again.
#[test]
fn a_source_back_within_its_limit_is_never_refused_again() {
    for injected_tick in [0, 4_000_000] {
        let mut bytecode = Bytecode::with(Settings { injected_tick, ..crate::settings() });
        bytecode.set("default", per_second(10, 10));
        bytecode.set_time(SECOND);
        until_cached(&bytecode, Reason::OverPackets);
        // After one wrap, the end of the cached refusal seems to be a second ahead.
        let around = (1 << 54) - SECOND;
        for after in (1..=208).map(|day| day * DAY).chain([around]).chain((209..=420).map(|day| day * DAY)) {
            bytecode.set_time(SECOND + after);
            assert_eq!(bytecode.reason(&frame()), Reason::WithinLimit, "{} days, tick {injected_tick}", after / DAY);
        }
    }
}

/// The program drops a denied source by its cell. The source's bucket counts each packet while there are few.
#[test]
fn a_denied_source_is_dropped_by_its_cached_refusal_and_counted_exactly() {
    let mut bytecode = Bytecode::with(crate::settings());
    bytecode.set_time(SECOND);
    bytecode.set("192.0.2.7", Policy::DENIED);
    let (source, frame) = (Source::v4(ADDRESS), frame());
    bytecode.send(&frame);
    let bucket = bytecode.bucket(source).unwrap();
    assert_eq!((bucket.passed(), bucket.over_limit()), (0, 1));
    bytecode.repeat(&frame, 500);
    assert_eq!(repeated(&bytecode), 500, "the cached refusal did not drop every packet");
    assert_eq!(bytecode.count(Reason::Denied), 501);
    let listed = |bytecode: &Bytecode| {
        let tracked = tracked::all(&bytecode.tables).unwrap();
        let [(found, bucket)] = tracked[..] else { panic!("{tracked:?}") };
        assert_eq!((found, bucket.is_sampled()), (source, false));
        (bucket.over_limit(), bucket.dropped().bytes)
    };
    assert_eq!(listed(&bytecode), (501, 501 * frame.len() as u64));
    // After any change the program reads the rules once more.
    bytecode.tables.renew().unwrap();
    bytecode.repeat(&frame, 10);
    assert_eq!(listed(&bytecode), (511, 511 * frame.len() as u64));
    assert_eq!(repeated(&bytecode), 509);
}
