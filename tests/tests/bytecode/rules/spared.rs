//! What this host spares: no deny, list or ban is applied to it, and its limits are.

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::SECOND,
        policy::{Ban, Policy},
    },
    maps::event,
    reason::Reason,
    rules::spared::Spared,
};
use ratelimit_dataplane::{lists::action::Action, program::loader::Settings, rules::resolve, tables::spared};
use ratelimit_tests::{Bytecode, Frame, per_second};

use super::lists::{apply, frame, list};
use crate::front::{Front, with_and_without_cells};

const BAN: Ban = Ban { time: 600 * SECOND, most: 600 * SECOND, after: 1, reserved: 0 };

fn load(front: Front, spare: bool) -> Bytecode {
    let lanes = front.is_on();
    let settings = Settings { lists: true, bans: true, services: true, lanes, spare, ..front.settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    bytecode
}

/// Makes these prefixes the spared ones, as the user side does.
fn spare(bytecode: &mut Bytecode, prefixes: &[&str]) {
    let before: Vec<Source> = spared::all(&bytecode.tables).unwrap().into_iter().map(|(source, _)| source).collect();
    spared::remove(&bytecode.tables, &before).unwrap();
    let entry = |prefix: &&str| (prefix.parse::<Prefix>().unwrap().source(), Spared::Gateway as u64);
    spared::set(&bytecode.tables, &prefixes.iter().map(entry).collect::<Vec<_>>()).unwrap();
    bytecode.tables.renew().unwrap();
}

/// Sends ten packets from an address, and returns the reason of the first and of the last one. The rules say the same.
fn reasons(bytecode: &Bytecode, from: &str) -> [Reason; 2] {
    let frame = frame(from);
    let all: Vec<Reason> = (0..10).map(|_| bytecode.reason(&frame)).collect();
    let spec = resolve::of_address(&bytecode.tables, &from.parse().unwrap(), 0).unwrap();
    let is_limited = spec.policy.has_limits();
    assert_eq!(is_limited, matches!(all[0], Reason::WithinLimit | Reason::OverPackets), "{from}: {spec:?}");
    [all[0], all[9]]
}

const LIMITED: [Reason; 2] = [Reason::WithinLimit, Reason::OverPackets];

fn nothing_denies_what_is_spared_and_its_limit_stays(front: Front) {
    for (entry, gateway, neighbour, outside) in
        [("10.0.0.0/8", "10.9.0.1", "10.9.0.2", "10.8.0.1"), ("fd00::/16", "fd00:9::1", "fd00:9::2", "fd00:8::1")]
    {
        let is_ipv4 = entry.contains('.');
        let whole = if is_ipv4 { "10.9.0.1" } else { "fd00:9::/64" };
        for kind in ["deny", "list", "both"] {
            let mut bytecode = load(front, true);
            bytecode.set("default", per_second(5, 5));
            let refused = if kind == "deny" { Reason::Denied } else { Reason::Listed };
            if kind != "list" {
                bytecode.set(entry, Policy::DENIED);
            }
            if kind != "deny" {
                apply(&mut bytecode.tables, vec![list("bogons", &[entry], Action::Deny)], &[]);
            }
            let refused = if kind == "both" { Reason::Denied } else { refused };
            assert_eq!(reasons(&bytecode, gateway), [refused; 2], "{kind}");
            spare(&mut bytecode, &[whole]);
            // At the next packet, although its cell has cached the refusal. Its default limit applies.
            assert_eq!(reasons(&bytecode, gateway), LIMITED, "{kind}");
            assert_eq!(reasons(&bytecode, outside), [refused; 2], "{kind}");
            // One source of IPv6 has one verdict.
            let [first, _] = reasons(&bytecode, neighbour);
            assert_eq!(first == refused, is_ipv4, "{kind}: {first:?}");
            // It follows.
            spare(&mut bytecode, &["192.0.2.1"]);
            assert_eq!(reasons(&bytecode, gateway), [refused; 2], "{kind}");
        }
    }
}

fn a_spared_source_keeps_its_own_limit_and_allow(front: Front) {
    let mut bytecode = load(front, true);
    bytecode.set("default", per_second(5, 5));
    bytecode.set("10.9.0.1", per_second(2, 2));
    bytecode.set("10.9.0.2", Policy::ALLOWED);
    apply(&mut bytecode.tables, vec![list("bogons", &["10.0.0.0/8"], Action::Deny)], &[]);
    spare(&mut bytecode, &["10.9.0.0/24"]);
    let passed = |from| (0..10).take_while(|_| bytecode.reason(&frame(from)) == Reason::WithinLimit).count();
    assert_eq!([passed("10.9.0.1"), passed("10.9.0.3")], [2, 5]);
    assert_eq!(reasons(&bytecode, "10.9.0.2"), [Reason::Allowed; 2]);
    // The limit of a list is one too.
    let mut bytecode = load(front, true);
    let limit = Action::Limit(Box::new(per_second(3, 3).into()));
    apply(&mut bytecode.tables, vec![list("slow", &["10.0.0.0/8"], limit)], &[]);
    bytecode.set("10.9.0.0/16", Policy::DENIED);
    spare(&mut bytecode, &["10.9.0.1"]);
    assert_eq!((0..10).take_while(|_| bytecode.reason(&frame("10.9.0.1")) == Reason::WithinLimit).count(), 3);
    assert_eq!(reasons(&bytecode, "10.9.0.2"), [Reason::Denied; 2]);
}

fn a_deny_that_an_operator_forces_applies(front: Front) {
    let mut bytecode = load(front, true);
    bytecode.set("default", per_second(5, 5));
    bytecode.set("10.9.0.1", Policy::FORCED);
    bytecode.set("10.9.0.2 udp/53", Policy::FORCED);
    apply(&mut bytecode.tables, vec![list("bogons", &["10.0.0.0/8"], Action::Deny)], &[]);
    spare(&mut bytecode, &["10.9.0.0/24"]);
    assert_eq!(reasons(&bytecode, "10.9.0.1"), [Reason::Denied; 2]);
    // A deny of one service says nothing of the list and of other services.
    assert_eq!(reasons(&bytecode, "10.9.0.2"), LIMITED);
    assert_eq!(bytecode.reason(&Frame::udp([10, 9, 0, 2], 53).bytes()), Reason::Denied);
    bytecode.delete("10.9.0.1");
    assert_eq!(reasons(&bytecode, "10.9.0.1"), LIMITED);
}

fn a_spared_source_is_not_banned(front: Front) {
    let mut bytecode = load(front, true);
    bytecode.set("default", Policy { ban: BAN, ..per_second(5, 5) });
    // It was banned before it was spared.
    let banned = frame("10.9.0.1");
    while bytecode.reason(&banned) != Reason::OverPackets {}
    bytecode.set_time(2 * SECOND);
    assert_eq!(bytecode.reason(&banned), Reason::Banned);
    spare(&mut bytecode, &["10.9.0.0/24"]);
    bytecode.set_time(60 * SECOND);
    assert_eq!(reasons(&bytecode, "10.9.0.1"), LIMITED);
    assert_eq!(reasons(&bytecode, "10.9.0.2"), LIMITED);
    bytecode.set_time(120 * SECOND);
    assert_eq!(reasons(&bytecode, "10.9.0.2"), LIMITED);
    // Another source is. No event tells of a ban that would not apply.
    let other = frame("10.8.0.1");
    while bytecode.reason(&other) != Reason::OverPackets {}
    bytecode.set_time(130 * SECOND);
    assert_eq!(bytecode.reason(&other), Reason::Banned);
    let events = bytecode.tables.events.open().unwrap();
    let bans = events.iter().map(Result::unwrap).filter(|event| event.kind == event::BANNED).count();
    assert_eq!(bans, 2);
}

fn with_spare_off_everything_is_denied(front: Front) {
    let mut bytecode = load(front, false);
    bytecode.set("10.9.0.1", Policy::DENIED);
    apply(&mut bytecode.tables, vec![list("bogons", &["127.0.0.0/8"], Action::Deny)], &[]);
    spare(&mut bytecode, &["10.9.0.0/24", "127.0.0.0/8"]);
    assert_eq!(reasons(&bytecode, "10.9.0.1"), [Reason::Denied; 2]);
    assert_eq!(reasons(&bytecode, "127.0.0.1"), [Reason::Listed; 2]);
}

with_and_without_cells!(
    nothing_denies_what_is_spared_and_its_limit_stays,
    a_spared_source_keeps_its_own_limit_and_allow,
    a_deny_that_an_operator_forces_applies,
    a_spared_source_is_not_banned,
    with_spare_off_everything_is_denied,
);
