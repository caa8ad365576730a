//! Rules for whole IPv6 sources and for parts of them take each other's place while packets arrive. Both refuse, so no
//! packet passes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::Control,
    reason::Reason,
    rules::rule::{COMMAND, NEVER},
};
use ratelimit_dataplane::{
    lists::action::Action,
    rules::{
        batch::{self, Change, RequestedRule},
        target::Target,
    },
    tables::open::Tables,
};

use ratelimit_tests::Bytecode;

use super::lists::{apply, frame, list, load};
use crate::front::{Front, with_and_without_cells};

with_and_without_cells!(
    no_packet_passes_while_a_list_of_parts_replaces_one_of_whole_sources,
    no_packet_passes_while_rules_of_parts_replace_one_of_a_whole_source
);

const WHOLE: [&str; 1] = ["2001:db8::/64"];
const PARTS: [&str; 4] =
    ["2001:db8::/66", "2001:db8::4000:0:0:0/66", "2001:db8::8000:0:0:0/66", "2001:db8::c000:0:0:0/66"];
const FROM: &str = "2001:db8::1";
/// Packets of one call, which share an entry into the kernel.
const PACKETS: u32 = 2_000;

/// Changes rules while packets arrive, and asserts that all packets have this reason. `change` returns whether it is
/// over.
fn flood(bytecode: &mut Bytecode, expected: Reason, mut change: impl FnMut(&mut Tables, u64) -> bool) {
    let (is_over, frame) = (AtomicBool::new(false), frame(FROM));
    let (runner, tables) = bytecode.apart();
    let (sent, changes) = thread::scope(|scope| {
        let packets = scope.spawn(|| {
            let mut sent = 0;
            while !is_over.load(Ordering::Acquire) {
                let _ = runner.repeat(&frame, PACKETS);
                sent += u64::from(PACKETS);
            }
            sent
        });
        let mut changes = 0;
        while !change(tables, changes) {
            changes += 1;
        }
        is_over.store(true, Ordering::Release);
        (packets.join().unwrap(), changes)
    });
    println!("{sent} packets during {changes} changes");
    assert_eq!(bytecode.count(expected), sent, "{:?}", bytecode.counts());
}

/// The generations take turns: in each other one, the other list is in force.
fn no_packet_passes_while_a_list_of_parts_replaces_one_of_whole_sources(front: Front) {
    let mut bytecode = load(front);
    let mut slots = |name: &str, prefixes: &[&str]| {
        apply(&mut bytecode.tables, vec![list(name, prefixes, Action::Deny)], &[]);
        bytecode.tables.control().unwrap().next_lists()
    };
    let whole = slots("whole", &WHOLE);
    let lists = [whole, slots("parts", &PARTS) & !whole];
    let mut control = Control { lists, ..bytecode.tables.control().unwrap() };
    flood(&mut bytecode, Reason::Listed, |tables, changes| {
        control = control.renewed();
        tables.set_control(&control).unwrap();
        changes == 200_000
    });
}

fn no_packet_passes_while_rules_of_parts_replace_one_of_a_whole_source(front: Front) {
    let targets = |of: &[&str]| of.iter().map(|prefix| prefix.parse().unwrap()).collect::<Vec<Target>>();
    let (whole, parts) = (targets(&WHOLE), targets(&PARTS));
    let mut bytecode = load(front);
    let change = |tables: &mut Tables, are_parts: bool| {
        let (new, old) = if are_parts { (&parts, &whole) } else { (&whole, &parts) };
        let rule = |target: &Target| RequestedRule { target: *target, spec: 0, expires: NEVER, origin: COMMAND };
        let change = Change {
            specs: vec![Policy::DENIED.into()],
            rules: new.iter().map(rule).collect(),
            deleted: old.clone(),
            ..Change::default()
        };
        batch::apply(None, tables, &change, &mut |_| {}, &|_| Ok(())).unwrap();
    };
    change(&mut bytecode.tables, false);
    let end = Instant::now() + Duration::from_secs(1);
    flood(&mut bytecode, Reason::Denied, |tables, changes| {
        change(tables, changes % 2 == 0);
        changes > 3 && Instant::now() >= end
    });
}
