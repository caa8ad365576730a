//! Rules for parts of an IPv6 source. Each part is a source of its own.

use std::{net::Ipv6Addr, time::Duration};

use aya::maps::lpm_trie::Key;
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::{ANY, Classes},
        narrow::Lengths,
    },
    limits::{
        limit::SECOND,
        policy::{Ban, Policy},
    },
    reason::Reason,
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::{batch, resolve},
    sys::host,
};
use ratelimit_tests::{Bytecode, Frame, per_second};

use crate::front::{Front, with_and_without_cells};

fn v6(address: &str) -> Vec<u8> {
    Frame::udp(address.parse::<Ipv6Addr>().unwrap(), 9).bytes()
}

/// Deletes a rule from its map alone. No filter, list or generation changes.
fn delete_behind_the_back(bytecode: &mut Bytecode, prefix: &str) {
    let source = prefix.parse::<Prefix>().unwrap().source();
    let (bits, data) = source.prefix_key(source.prefix);
    bytecode.tables.prefix_rules.open_mut().unwrap().remove(&Key::new(bits, data)).unwrap();
}

/// The program does not search for the rule of a refused part again.
fn a_refused_part_is_refused_again_without_its_rule(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1_000, 1_000));
    for (prefix, policy, reason) in [
        ("2001:db8::bad/128", Policy::DENIED, Reason::Denied),
        ("2001:db8::aa00/120", per_second(1, 1), Reason::OverPackets),
    ] {
        bytecode.set(prefix, policy);
        let frame = v6(prefix.split_once('/').unwrap().0);
        bytecode.send(&frame);
        assert_eq!(bytecode.reason(&frame), reason, "{prefix}");
        delete_behind_the_back(&mut bytecode, prefix);
        assert_eq!(bytecode.reason(&frame), reason, "{prefix}");
        bytecode.tables.renew().unwrap();
        assert_eq!(bytecode.reason(&frame), Reason::WithinLimit, "{prefix}");
    }
}

fn a_changed_rule_applies_to_the_next_packet_of_its_part(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1_000, 1_000));
    let (frame, beside) = (v6("2001:db8::aa:1"), v6("2001:db8::aa:2"));
    assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
    bytecode.set("2001:db8::aa:0/112", Policy::DENIED);
    assert_eq!([&frame, &beside].map(|frame| bytecode.reason(frame)), [Reason::Denied; 2]);
    bytecode.set("2001:db8::aa:1", Policy::ALLOWED);
    assert_eq!([&frame, &beside].map(|frame| bytecode.reason(frame)), [Reason::Allowed, Reason::Denied]);
    bytecode.delete("2001:db8::aa:0/112");
    assert_eq!([&frame, &beside].map(|frame| bytecode.reason(frame)), [Reason::Allowed, Reason::WithinLimit]);
    bytecode.delete("2001:db8::aa:1");
    assert_eq!([&frame, &beside].map(|frame| bytecode.reason(frame)), [Reason::WithinLimit; 2]);
}

fn an_expired_rule_of_a_part_gives_way_to_the_rule_of_its_source(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let begin = host::now();
    bytecode.set_time(begin);
    bytecode.set("2001:db8::/64", Policy::ALLOWED);
    let target = "2001:db8::aa00/120".parse().unwrap();
    batch::set(&mut bytecode.tables, target, &Policy::DENIED.into(), Some(Duration::from_secs(60)), COMMAND).unwrap();
    let set_by = host::now();
    for (time, reason) in [
        (begin, Reason::Denied),
        (begin + 59 * SECOND, Reason::Denied),
        (set_by + 60 * SECOND, Reason::Allowed),
        (set_by + 600 * SECOND, Reason::Allowed),
    ] {
        bytecode.set_time(time);
        for _ in 0..2 {
            assert_eq!(bytecode.reason(&v6("2001:db8::aa01")), reason, "{} s", (time - begin) / SECOND);
        }
    }
}

/// With more lengths than the list has, too. The user side agrees.
fn any_number_of_lengths_is_found(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set_time(host::now());
    bytecode.set("default", per_second(1_000, 1_000));
    // The address ::1 lies in all of them, and ::1 with another bit set lies in the wider ones.
    let all: Vec<u32> = (0..7).map(|step| 128 - 8 * step).collect();
    for (count, bits) in all.iter().enumerate() {
        bytecode.set(&format!("2001:db8::/{bits}"), if count % 2 == 0 { Policy::DENIED } else { Policy::ALLOWED });
        let lengths = Lengths(bytecode.tables.control().unwrap().narrow_rules);
        assert_eq!(lengths == Lengths::MANY, count >= 4, "{count}");
        for (place, bits) in all.iter().enumerate() {
            let other = if *bits == 128 { 0 } else { 1_u128 << (127 - bits) };
            let address = Ipv6Addr::from_bits("2001:db8::".parse::<Ipv6Addr>().unwrap().to_bits() | other);
            let expected = match place {
                _ if place > count => Reason::WithinLimit,
                _ if place % 2 == 0 => Reason::Denied,
                _ => Reason::Allowed,
            };
            for _ in 0..2 {
                assert_eq!(bytecode.reason(&v6(&address.to_string())), expected, "/{bits} of {count}");
            }
            let prefix = address.to_string().parse().unwrap();
            let spec = resolve::of_address(&bytecode.tables, &prefix, Classes::from(ANY)).unwrap();
            let found = [Policy::DENIED, Policy::ALLOWED].contains(&spec.policy);
            assert_eq!(found, expected != Reason::WithinLimit, "/{bits} of {count}");
        }
    }
    for bits in all {
        bytecode.delete(&format!("2001:db8::/{bits}"));
    }
    assert_eq!(bytecode.tables.control().unwrap().narrow_rules, 0);
    assert_eq!(bytecode.reason(&v6("2001:db8::")), Reason::WithinLimit);
}

/// A ban outlasts the rule of its part, and bans nothing else of the source.
fn a_banned_part_stays_banned_without_its_rule(front: Front) {
    let ban = Ban { time: 600 * SECOND, most: 600 * SECOND, after: 1, reserved: 0 };
    for prefix in ["2001:db8::aa00/120", "2001:db8::aa00"] {
        let mut bytecode = Bytecode::with(Settings { bans: true, ..front.settings() });
        let begin = host::now();
        bytecode.set_time(begin);
        bytecode.set("default", per_second(1_000, 1_000));
        bytecode.set("2001:db8:1::", Policy::DENIED);
        bytecode.set(prefix, Policy { ban, ..per_second(1, 1) });
        let frame = v6("2001:db8::aa00");
        for _ in 0..4 {
            bytecode.send(&frame);
        }
        bytecode.set_time(begin + 5 * SECOND);
        assert_eq!(bytecode.reason(&frame), Reason::Banned, "{prefix}");
        delete_behind_the_back(&mut bytecode, if prefix.contains('/') { prefix } else { "2001:db8::aa00/128" });
        // Rebuilds the filter, as after an expired rule.
        bytecode.delete("2001:db8:1::");
        for _ in 0..2 {
            assert_eq!(bytecode.reason(&frame), Reason::Banned, "{prefix}");
            assert_eq!(bytecode.reason(&v6("2001:db8::1")), Reason::WithinLimit, "{prefix}");
        }
    }
}

with_and_without_cells!(
    a_refused_part_is_refused_again_without_its_rule,
    a_changed_rule_applies_to_the_next_packet_of_its_part,
    an_expired_rule_of_a_part_gives_way_to_the_rule_of_its_source,
    any_number_of_lengths_is_found,
    a_banned_part_stays_banned_without_its_rule,
);
