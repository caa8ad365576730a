//! Rule lookup: which policy applies to a source, and since when.

use std::{net::Ipv6Addr, time::Duration};

use aya::maps::lpm_trie::Key;
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::{ANY, Classes},
        source::{IPV4, Source},
    },
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::{ALLOWED_ID, Policy},
    },
    maps::names,
    reason::Reason,
    rules::rule::{COMMAND, Covered, Rule},
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::{batch, list, resolve, target::Target},
    sys::host,
};
use ratelimit_tests::{Bytecode, Frame, Verdict, per_second};

use crate::front::{Front, with_and_without_cells};

fn v4(address: &str) -> Vec<u8> {
    Frame::udp(address.parse::<std::net::Ipv4Addr>().unwrap(), 9).bytes()
}

fn v6(address: &str) -> Vec<u8> {
    Frame::udp(address.parse::<Ipv6Addr>().unwrap(), 9).bytes()
}

fn the_rule_with_the_longest_prefix_applies(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set("10.0.0.0/8", Policy::DENIED);
    bytecode.set("10.1.0.0/16", Policy::ALLOWED);
    bytecode.set("10.1.2.0/24", Policy::DENIED);
    bytecode.set("10.1.2.3", Policy::ALLOWED);
    bytecode.set("default", per_second(1, 1));
    let reasons =
        ["10.9.9.9", "10.1.9.9", "10.1.2.9", "10.1.2.3", "11.0.0.1"].map(|address| bytecode.reason(&v4(address)));
    assert_eq!(reasons, [Reason::Denied, Reason::Allowed, Reason::Denied, Reason::Allowed, Reason::WithinLimit]);
    assert_eq!(bytecode.reason(&v4("11.0.0.1")), Reason::OverPackets);
}

fn a_changed_rule_applies_to_the_next_packet_of_a_tracked_source(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let frame = v4("192.0.2.7");
    bytecode.set_time(SECOND);
    assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
    for target in ["default", "192.0.2.0/24", "192.0.2.7"] {
        bytecode.set(target, Policy::DENIED);
        assert_eq!(bytecode.reason(&frame), Reason::Denied, "{target}");
        bytecode.set(target, Policy::ALLOWED);
        assert_eq!(bytecode.reason(&frame), Reason::Allowed, "{target}");
        bytecode.delete(target);
        assert_eq!(bytecode.reason(&frame), Reason::WithinLimit, "{target}");
    }
}

fn a_larger_limit_caps_the_debt_of_a_smaller_one(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let frame = v4("192.0.2.7");
    bytecode.set_time(SECOND);
    let hourly =
        Limit { packets: Some(Rate { amount: 1, period: 3_600 * SECOND }), burst: Some(5), ..Limit::default() };
    bytecode.set("default", hourly.policy().unwrap());
    assert_eq!([0; 6].map(|_| bytecode.send(&frame)).iter().filter(|verdict| **verdict == Verdict::Pass).count(), 5);
    // The new limit caps five hours of debt at its own burst, a hundredth of a second.
    bytecode.set("default", per_second(1_000, 10));
    let mut passed = 0;
    for millisecond in 1..=20 {
        bytecode.set_time(SECOND + millisecond * SECOND / 1_000);
        passed += [0; 4].map(|_| bytecode.send(&frame)).iter().filter(|verdict| **verdict == Verdict::Pass).count();
    }
    assert!((19..=10 + 20).contains(&passed), "{passed}");
}

fn an_expired_rule_gives_way_to_the_wider_rule_on_time(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let frame = v4("192.0.2.7");
    let begin = host::now();
    bytecode.set_time(begin);
    bytecode.set("192.0.2.0/24", Policy::ALLOWED);
    for (target, seconds) in [("192.0.2.0/25", 60), ("192.0.2.7", 30)] {
        let target: Target = target.parse().unwrap();
        batch::set(&mut bytecode.tables, target, &Policy::DENIED.into(), Some(Duration::from_secs(seconds)), COMMAND)
            .unwrap();
    }
    let set_by = host::now();
    for (time, reason) in [
        (begin, Reason::Denied),
        (begin + 29 * SECOND, Reason::Denied),
        (set_by + 30 * SECOND, Reason::Denied),
        (begin + 59 * SECOND, Reason::Denied),
        (set_by + 60 * SECOND, Reason::Allowed),
        (set_by + 600 * SECOND, Reason::Allowed),
    ] {
        bytecode.set_time(time);
        assert_eq!(bytecode.reason(&frame), reason, "{} s", (time - begin) / SECOND);
    }
}

/// Expired rules stay in the map until a command removes them. The program and the user side skip any number of them.
fn any_number_of_expired_prefixes_inside_each_other_is_skipped(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    for (address, all, longest) in [("192.0.2.7", "0.0.0.0/0", 31), ("2001:db8::7", "::/0", 64)] {
        let prefix: Prefix = address.parse().unwrap();
        let frame = if prefix.source().family == IPV4 { v4(address) } else { v6(address) };
        bytecode.set(all, Policy::DENIED);
        let ended = Rule { policy: ALLOWED_ID, prefix: 0, origin: COMMAND, covered: Covered::NONE, expires: 1 };
        for bits in 1..=longest {
            let (key_bits, data) = prefix.source().prefix_key(bits);
            let ended = Rule { prefix: bits, ..ended };
            bytecode.tables.prefix_rules.open_mut().unwrap().insert(&Key::new(key_bits, data), ended, 0).unwrap();
            bytecode.tables.renew().unwrap();
            bytecode.set_time(host::now());
            assert_eq!(bytecode.reason(&frame), Reason::Denied, "{bits} expired prefixes");
            let spec = resolve::of_address(&bytecode.tables, &prefix, Classes::from(ANY)).unwrap();
            assert_eq!(spec.policy, Policy::DENIED, "{bits} expired prefixes");
        }
    }
}

fn ipv6_addresses_of_one_prefix_are_one_source(front: Front) {
    for (prefix, same, other) in [
        (64, "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"),
        (48, "2001:db8:0:ffff::2", "2001:db8:1::1"),
        (128, "2001:db8:0:1::1", "2001:db8:0:1::2"),
        (61, "2001:db8:0:7::1", "2001:db8:0:8::1"),
    ] {
        let mut bytecode = Bytecode::with(Settings { ipv6_prefix: prefix, ..front.settings() });
        bytecode.set_time(SECOND);
        bytecode.set("default", per_second(1, 1));
        assert_eq!(bytecode.reason(&v6("2001:db8:0:1::1")), Reason::WithinLimit, "/{prefix}");
        assert_eq!(bytecode.reason(&v6(same)), Reason::OverPackets, "/{prefix}");
        assert_eq!(bytecode.reason(&v6(other)), Reason::WithinLimit, "/{prefix}");
        let address = "2001:db8:0:1::1".parse::<Ipv6Addr>().unwrap().octets();
        assert!(bytecode.bucket(Source::v6(address, prefix as u8)).is_some(), "/{prefix}");
    }
}

fn each_link_local_address_is_a_separate_source(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1, 1));
    assert_eq!(bytecode.reason(&v6("fe80::1")), Reason::WithinLimit);
    assert_eq!(bytecode.reason(&v6("fe80::2")), Reason::WithinLimit);
    assert_eq!(bytecode.reason(&v6("fe80::1")), Reason::OverPackets);
    bytecode.set("fe80::1", Policy::DENIED);
    assert_eq!(bytecode.reason(&v6("fe80::1")), Reason::Denied);
    assert_eq!(bytecode.reason(&v6("fe80::3")), Reason::WithinLimit);
    for prefix in ["fe80::/64", "fe80::/10", "fe80::/100"] {
        bytecode.set(prefix, Policy::DENIED);
        assert_eq!(bytecode.reason(&v6("fe80::4")), Reason::Denied, "{prefix}");
        bytecode.delete(prefix);
        assert_eq!(bytecode.tables.control().unwrap().narrow_rules, 0, "{prefix}");
    }
}

fn part_of_an_ipv6_prefix_with_its_own_rule_is_a_separate_source(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1, 1));
    bytecode.set("2001:db8::bad", Policy::DENIED);
    bytecode.set("2001:db8::aa00/120", per_second(1, 2));
    assert_eq!(bytecode.reason(&v6("2001:db8::bad")), Reason::Denied);
    assert_eq!(bytecode.reason(&v6("2001:db8::1")), Reason::WithinLimit);
    assert_eq!(bytecode.reason(&v6("2001:db8::2")), Reason::OverPackets);
    let narrow = ["2001:db8::aa01", "2001:db8::aa02", "2001:db8::aa01"].map(|address| bytecode.reason(&v6(address)));
    assert_eq!(narrow, [Reason::WithinLimit, Reason::WithinLimit, Reason::OverPackets]);
    bytecode.delete("2001:db8::bad");
    bytecode.delete("2001:db8::aa00/120");
    assert_eq!(bytecode.reason(&v6("2001:db8::bad")), Reason::OverPackets);
    assert_eq!(bytecode.tables.control().unwrap().narrow_rules, 0);
}

/// Rules for a whole IPv6 source are in another map than narrower and wider rules.
fn narrower_and_wider_rules_do_not_hide_the_rule_of_an_ipv6_source(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set_time(SECOND);
    bytecode.set("2001:db8::/32", Policy::DENIED);
    bytecode.set("2001:db8:0:1::/64", Policy::ALLOWED);
    bytecode.set("2001:db8:0:1:aa::/80", Policy::DENIED);
    bytecode.set("2001:db8:0:1:aa::1", Policy::ALLOWED);
    let reasons = ["2001:db8:0:2::1", "2001:db8:0:1::1", "2001:db8:0:1:aa::2", "2001:db8:0:1:aa::1"]
        .map(|address| bytecode.reason(&v6(address)));
    assert_eq!(reasons, [Reason::Denied, Reason::Allowed, Reason::Denied, Reason::Allowed]);
    bytecode.delete("2001:db8:0:1::/64");
    assert_eq!(bytecode.reason(&v6("2001:db8:0:1::1")), Reason::Denied);
    assert_eq!(bytecode.reason(&v6("2001:db8:0:1:aa::1")), Reason::Allowed);
}

/// A missing bucket is no reason to refuse a packet, and rules apply to every source.
fn with_one_bucket_rules_still_apply_to_every_packet(front: Front) {
    let mut bytecode =
        Bytecode::with(Settings { buckets: 1, cells: if front.is_on() { 1 << 18 } else { 0 }, ..front.settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1, 1));
    bytecode.set("10.2.0.0/16", Policy::DENIED);
    for host in 0..200 {
        assert!(bytecode.reason(&v4(&format!("10.1.0.{host}"))).passes());
        assert_eq!(bytecode.reason(&v4(&format!("10.2.0.{host}"))), Reason::Denied);
    }
    assert_eq!(bytecode.count(Reason::WithinLimit), 200);
    // A source that keeps sending has the bucket and its limit. Without a bucket, its cell keeps its debt.
    let again = bytecode.send(&v4("10.1.0.7"));
    assert_eq!(again, if front.is_on() { Verdict::Drop } else { Verdict::Pass });
    assert_eq!(bytecode.reason(&v4("10.1.0.7")), Reason::OverPackets);
}

fn more_limits_than_policy_slots_are_refused_and_freed_slots_are_reused(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let mut all = 0;
    let refused = (1..=names::POLICIES_MAX).find_map(|number| {
        // Written directly, because `batch::set` would read all earlier slots.
        let policy = per_second(u64::from(number), 1);
        if number < names::POLICIES_MAX - 8 {
            bytecode.tables.policies.set(number + 2, &policy).unwrap();
            let rule = ratelimit_common::rules::rule::Rule {
                policy: number + 2,
                prefix: 32,
                origin: COMMAND,
                covered: Covered::NONE,
                expires: ratelimit_common::rules::rule::NEVER,
            };
            bytecode.tables.source_rules.open_mut().unwrap().insert(Source::v4(number.to_be_bytes()), rule, 0).unwrap();
            all += 1;
            return None;
        }
        let target = std::net::Ipv4Addr::from(number).to_string().parse().unwrap();
        match batch::set(&mut bytecode.tables, target, &policy.into(), None, COMMAND) {
            Ok(()) => all += 1,
            Err(error) => return Some(error.to_string()),
        }
        None
    });
    // One slot is kept for forced denies.
    assert_eq!(all, names::POLICIES_MAX - 4);
    assert!(refused.unwrap().contains("different limits are in use"));
    bytecode.delete("0.0.0.5");
    bytecode.set("192.0.2.1", per_second(77_777, 1));
    let listed = list::get(&bytecode.tables, "192.0.2.1".parse().unwrap()).unwrap().unwrap();
    assert_eq!(listed.spec.policy, per_second(77_777, 1));
}

with_and_without_cells!(
    the_rule_with_the_longest_prefix_applies,
    a_changed_rule_applies_to_the_next_packet_of_a_tracked_source,
    a_larger_limit_caps_the_debt_of_a_smaller_one,
    an_expired_rule_gives_way_to_the_wider_rule_on_time,
    any_number_of_expired_prefixes_inside_each_other_is_skipped,
    ipv6_addresses_of_one_prefix_are_one_source,
    each_link_local_address_is_a_separate_source,
    part_of_an_ipv6_prefix_with_its_own_rule_is_a_separate_source,
    narrower_and_wider_rules_do_not_hide_the_rule_of_an_ipv6_source,
    with_one_bucket_rules_still_apply_to_every_packet,
    more_limits_than_policy_slots_are_refused_and_freed_slots_are_reused,
);
