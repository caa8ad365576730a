//! Named lists: which packets they refuse, and the moment at which one replaces another.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::class::{ANY, Classes},
    limits::{
        limit::{DAY, Limit, Rate, SECOND},
        policy::Policy,
    },
    reason::{Count, Reason},
    rules::{
        list::LISTS_MAX,
        rule::{COMMAND, NEVER},
    },
};
use ratelimit_dataplane::{
    lists::{
        action::Action,
        change::{self, ListChange, RequestedList},
        entries::Entries,
        listing,
    },
    program::loader::Settings,
    rules::resolve,
    tables::open::Tables,
};
use ratelimit_tests::{Bytecode, Frame, PATIENCE, Verdict};

use crate::front::{Front, with_and_without_cells};

pub(super) fn load(front: Front) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { lists: true, lanes: front.is_on(), ..front.settings() });
    bytecode.set_time(SECOND);
    bytecode
}

/// Returns a limit of this number of packets per day.
fn only(packets: u64) -> Policy {
    let rate = Rate { amount: 1, period: DAY };
    Limit { packets: Some(rate), burst: Some(packets), ..Limit::default() }.policy().unwrap()
}

pub(super) fn list(name: &str, entries: &[&str], action: Action) -> RequestedList {
    let prefixes = entries.iter().map(|entry| entry.parse::<Prefix>().unwrap()).collect();
    let (name, entries) = (name.to_owned(), Entries::of(prefixes));
    RequestedList { name, entries, action, expires: NEVER, origin: COMMAND, file: None }
}

pub(super) fn apply(tables: &mut Tables, set: Vec<RequestedList>, deleted: &[&str]) {
    let deleted = deleted.iter().map(|name| (*name).to_owned()).collect();
    change::apply(None, tables, &ListChange { set, deleted }, &|_| Ok(())).unwrap();
}

/// Sets a list that denies these entries.
pub(crate) fn deny(bytecode: &mut Bytecode, name: &str, entries: &[&str]) {
    apply(&mut bytecode.tables, vec![list(name, entries, Action::Deny)], &[]);
}

fn limit(bytecode: &mut Bytecode, name: &str, entries: &[&str], packets: u64) {
    apply(&mut bytecode.tables, vec![list(name, entries, Action::Limit(Box::new(only(packets).into())))], &[]);
}

pub(super) fn frame(from: &str) -> Vec<u8> {
    Frame::udp(from.parse::<std::net::IpAddr>().unwrap(), 9).bytes()
}

/// Sends packets from an address until one has another reason than the first, or 20 have the same.
fn reasons(bytecode: &Bytecode, from: &str) -> (u32, Reason) {
    let frame = frame(from);
    let first = bytecode.reason(&frame);
    let same = (1..20).take_while(|_| bytecode.reason(&frame) == first).count() as u32;
    (same + 1, first)
}

fn hits(bytecode: &Bytecode, name: &str) -> Count {
    listing::with_estimates(&bytecode.tables).unwrap().into_iter().find(|list| list.name == name).unwrap().hits
}

/// The commands say the same as the program.
#[track_caller]
fn assert_reason(bytecode: &Bytecode, from: &str, expected: Reason) {
    assert_eq!(bytecode.reason(&frame(from)), expected, "{from}");
    let spec = resolve::of_address(&bytecode.tables, &from.parse().unwrap(), Classes::from(ANY)).unwrap();
    let kind = match expected {
        Reason::Allowed => Policy::ALLOWED.kind,
        Reason::Denied => Policy::DENIED.kind,
        Reason::Listed => Policy::listed(0).kind,
        _ => Policy::UNLIMITED.kind,
    };
    assert_eq!(spec.policy.kind, kind, "{from}");
}

fn every_packet_of_a_denied_source_is_dropped_and_counted(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default", only(20));
    deny(&mut bytecode, "feed", &["192.0.2.7", "10.1.0.0/16", "2001:db8::/48", "2001:db9::bad"]);
    let sources = ["192.0.2.7", "10.1.2.3", "2001:db8::1", "2001:db9::bad"];
    let mut sent = Count::default();
    for from in sources {
        assert_reason(&bytecode, from, Reason::Listed);
        assert_eq!(bytecode.repeat(&frame(from), 50), Verdict::Drop);
        sent.packets += 51;
        sent.bytes += 51 * frame(from).len() as u64;
        assert_eq!(bytecode.count(Reason::Listed), sent.packets);
    }
    // Most of them are repeated by cells.
    assert_eq!(hits(&bytecode, "feed"), sent);
    for from in ["192.0.2.8", "10.2.2.3", "2001:db8:1::1", "2001:db9::bae"] {
        assert_reason(&bytecode, from, Reason::WithinLimit);
    }
    apply(&mut bytecode.tables, vec![], &["feed"]);
    for from in sources {
        assert_reason(&bytecode, from, Reason::WithinLimit);
    }
    assert!(listing::with_estimates(&bytecode.tables).unwrap().is_empty());
    // Another list with the same number begins without hits.
    deny(&mut bytecode, "other", &["192.0.2.7"]);
    assert_eq!(hits(&bytecode, "other"), Count::default());
}

fn an_allow_outranks_every_list_and_a_list_that_denies_every_limit(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default", only(20));
    let all = ["10.0.0.1", "10.0.0.2", "10.0.1.0/24", "10.1.0.0/16", "2001:db8::1", "2001:db8:1::/48"];
    deny(&mut bytecode, "feed", &all);
    bytecode.set("10.0.0.0/8", Policy::ALLOWED);
    bytecode.set("2001:db8::/32", Policy::ALLOWED);
    for from in ["10.0.0.1", "10.0.1.9", "10.1.9.9", "2001:db8::1", "2001:db8:1::1"] {
        assert_reason(&bytecode, from, Reason::Allowed);
    }
    assert_eq!(hits(&bytecode, "feed"), Count::default());
    bytecode.set("10.0.0.0/8", only(5));
    bytecode.set("10.0.0.1", only(5));
    bytecode.set("10.0.0.2", Policy::DENIED);
    bytecode.set("2001:db8::/32", Policy::DENIED);
    for from in ["10.0.0.1", "10.0.1.9", "10.1.9.9"] {
        assert_reason(&bytecode, from, Reason::Listed);
    }
    for from in ["10.0.0.2", "2001:db8::1", "2001:db8:1::1"] {
        assert_reason(&bytecode, from, Reason::Denied);
    }
    // The list has replaced no rule.
    apply(&mut bytecode.tables, vec![], &["feed"]);
    assert_eq!(reasons(&bytecode, "10.0.0.1"), (5, Reason::WithinLimit));
}

fn a_list_that_limits_takes_the_place_of_the_default(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default", only(12));
    limit(&mut bytecode, "wide", &["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"], 6);
    limit(&mut bytecode, "narrow", &["10.1.0.0/16", "10.2.0.1"], 4);
    limit(&mut bytecode, "young", &["10.1.0.0/16", "192.0.2.0/24"], 8);
    for (from, packets) in
        [("10.9.0.1", 6), ("10.1.0.1", 4), ("10.2.0.1", 4), ("192.0.2.1", 6), ("2001:db8::1", 6), ("198.51.100.1", 12)]
    {
        assert_eq!(reasons(&bytecode, from), (packets, Reason::WithinLimit), "{from}");
    }
    // Every rule outranks a list that limits, and a list that denies outranks one that limits.
    bytecode.set("10.0.0.0/8", only(3));
    assert_eq!(reasons(&bytecode, "10.1.0.2"), (3, Reason::WithinLimit));
    deny(&mut bytecode, "feed", &["10.0.0.0/8", "192.0.2.77"]);
    for from in ["10.1.0.3", "192.0.2.77"] {
        assert_reason(&bytecode, from, Reason::Listed);
    }
    if front.is_on() {
        assert!(hits(&bytecode, "wide").packets > 0);
    }
}

fn a_list_that_ends_lets_its_sources_go(front: Front) {
    let mut bytecode = load(front);
    let ends = list("ends", &["10.0.0.1", "2001:db8::/64"], Action::Deny);
    let wide = list("wide", &["10.0.0.0/8"], Action::Limit(Box::new(only(5).into())));
    apply(&mut bytecode.tables, vec![RequestedList { expires: 100 * SECOND, ..ends }, wide], &[]);
    for from in ["10.0.0.1", "2001:db8::9"] {
        for time in [50 * SECOND, 100 * SECOND - 1] {
            bytecode.set_time(time);
            assert_eq!(reasons(&bytecode, from), (20, Reason::Listed), "{from} at {time}");
        }
        bytecode.set_time(100 * SECOND);
        assert_eq!(bytecode.reason(&frame(from)), Reason::WithinLimit, "{from}");
    }
    assert_eq!(reasons(&bytecode, "10.0.0.1"), (4, Reason::WithinLimit));
}

fn a_list_is_replaced_for_the_next_packet(front: Front) {
    let mut bytecode = load(front);
    let (old, new) = (
        ["10.0.0.1", "10.0.0.3", "10.1.0.0/16", "2001:db8::1"],
        ["10.0.0.2", "10.0.0.3", "10.1.1.0/24", "2001:db8::2"],
    );
    for round in 0..4 {
        let (set, gone) = if round % 2 == 0 { (old, new) } else { (new, old) };
        deny(&mut bytecode, "feed", &set);
        let text = |entry: &str| entry.replace("0/16", "9").replace("0/24", "9");
        for from in set {
            assert_reason(&bytecode, &text(from), Reason::Listed);
        }
        for from in gone.iter().filter(|entry| !set.contains(entry) && !entry.contains('/')) {
            assert_reason(&bytecode, from, Reason::WithinLimit);
        }
        assert_reason(&bytecode, "10.1.1.9", Reason::Listed);
        assert_reason(&bytecode, "10.1.0.8", if round % 2 == 0 { Reason::Listed } else { Reason::WithinLimit });
    }
    // The list keeps its hits.
    assert!(hits(&bytecode, "feed").packets >= 20);
    let refused = change::apply(
        None,
        &mut bytecode.tables,
        &ListChange { set: vec![list("feed", &["10.9.9.9"], Action::Deny)], deleted: vec![] },
        &|tables| {
            let spec = resolve::of_address(tables, &"10.9.9.9".parse().unwrap(), Classes::from(ANY)).unwrap();
            assert_eq!(spec.policy, Policy::listed(0));
            Err(ratelimit_dataplane::Error::Interrupted)
        },
    );
    assert!(refused.is_err());
    assert_reason(&bytecode, "10.9.9.9", Reason::WithinLimit);
    assert_reason(&bytecode, "10.0.0.2", Reason::Listed);
}

/// Two lists of many addresses replace each other while packets arrive. Each of the lists has one of two addresses, and
/// both have a third. Whoever sees the first address denied before and after a packet of the second one has seen one list
/// at least until then, if no more than one switch has begun meanwhile.
fn no_packet_sees_half_of_a_list(front: Front) {
    let mut bytecode = load(front);
    let many = |third: u8| (0..2_000u32).map(move |n| format!("198.{third}.{}.{}", n >> 8, n & 255));
    let lists = [("10.0.0.1", "2001:db8::1", 18), ("10.0.0.2", "2001:db8::2", 19)].map(|(own, v6, third)| {
        let entries: Vec<String> = many(third).chain([own, v6, "10.0.0.3", "2001:db8::3"].map(str::to_owned)).collect();
        list("feed", &entries.iter().map(String::as_str).collect::<Vec<_>>(), Action::Deny)
    });
    apply(&mut bytecode.tables, vec![lists[0].clone()], &[]);
    let switches = AtomicU64::new(0);
    let least_end = Instant::now() + Duration::from_millis(1_500);
    let (runner, tables) = bytecode.apart();
    let compared = thread::scope(|scope| {
        let packets = scope.spawn(|| {
            let mut compared = [0u64; 2];
            let denies = |from: &[u8]| runner.repeat(from, 1) == Verdict::Drop;
            let families = [["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["2001:db8::1", "2001:db8::2", "2001:db8::3"]];
            let families = families.map(|addresses| addresses.map(frame));
            while Instant::now() < least_end || compared.iter().any(|count| *count <= 20) {
                assert!(Instant::now() < least_end + PATIENCE, "{compared:?}");
                for [first, second, both] in &families {
                    let begun = switches.load(Ordering::Acquire);
                    let seen = [denies(first), denies(second), denies(first)];
                    assert!(denies(both), "a packet has seen neither list");
                    if seen[0] == seen[2] && begun == switches.load(Ordering::Acquire) {
                        assert_ne!(seen[0], seen[1], "two packets have seen different halves");
                        compared[usize::from(seen[0])] += 1;
                    }
                }
            }
            compared
        });
        while !packets.is_finished() {
            for next in [1, 0] {
                apply(tables, vec![lists[next].clone()], &[]);
                switches.fetch_add(1, Ordering::AcqRel);
            }
        }
        packets.join().unwrap()
    });
    println!("{compared:?} comparisons, {} switches", switches.into_inner());
}

with_and_without_cells!(
    every_packet_of_a_denied_source_is_dropped_and_counted,
    an_allow_outranks_every_list_and_a_list_that_denies_every_limit,
    a_list_that_limits_takes_the_place_of_the_default,
    a_list_that_ends_lets_its_sources_go,
    a_list_is_replaced_for_the_next_packet,
    no_packet_sees_half_of_a_list,
);

/// As many lists as there can be have ended, and no command has removed them.
#[test]
fn ended_lists_give_their_numbers_back() {
    let mut bytecode = load(Front::On);
    let ended =
        |number| RequestedList { expires: 1, ..list(&format!("ended-{number}"), &["10.1.0.0/16"], Action::Deny) };
    apply(&mut bytecode.tables, (0..LISTS_MAX).map(ended).collect(), &[]);
    deny(&mut bytecode, "new", &["10.2.0.0/16"]);
    assert_eq!(bytecode.reason(&frame("10.2.0.1")), Reason::Listed);
}
