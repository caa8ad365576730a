//! Which of several interfaces to attach, if some are above others. Of two that the same packets pass, the lower one is:
//! its program comes first, and sees what a bridge forwards. The upper one is if it is a bond, if packets arrive there
//! that pass no lower one of them, or if the lower one is in shadow.

use std::collections::{BTreeMap, BTreeSet};

use super::twice;
use crate::sys::{
    interface::Interface,
    layers::{self, Stack},
};

/// How many interfaces a reason names.
const SHOWN: usize = 8;

/// Chooses among interfaces above each other, and returns why the others are left off. Lower ones see what is forwarded,
/// so they come first. But an upper one stays if something would arrive that passes none of the lower ones.
///
/// With each listed name, there is whether it is in shadow alone.
pub fn choose<'a>(
    stack: &Stack<'_>,
    all: &[Interface],
    listed: &[(&'a str, bool)],
    of_command: &BTreeSet<&str>,
) -> BTreeMap<&'a str, String> {
    let mut sorted: Vec<(&Interface, &'a str, bool)> =
        listed.iter().filter_map(|(name, shadow)| Some((stack.named(name)?, *name, *shadow))).collect();
    layers::sort_lower_first(all, &mut sorted, |(interface, ..)| interface.index);
    let in_shadow: BTreeSet<u32> =
        sorted.iter().filter(|(.., shadow)| *shadow).map(|(interface, ..)| interface.index).collect();
    let mut taken = BTreeSet::new();
    // Why an upper interface has replaced lower ones.
    let mut replaced: BTreeMap<u32, String> = BTreeMap::new();
    for (upper, name, is_shadow) in &sorted {
        let below: Vec<u32> = stack.below(upper.index).map(|it| it.index).filter(|it| taken.contains(it)).collect();
        if below.is_empty() || of_command.contains(name) {
            taken.insert(upper.index);
            continue;
        }
        let bare = stack.bare(upper.index, &taken);
        let mut shadows = below.iter().map(|lower| in_shadow.contains(lower));
        let is_lower_shadow = if *is_shadow { shadows.all(|one| one) } else { shadows.any(|one| one) };
        if twice::prefers_upper(layers::is_bond(upper) || !bare.is_empty(), *is_shadow, is_lower_shadow) {
            let why = match &*bare.iter().map(|port| port.name.as_str()).collect::<Vec<_>>() {
                _ if is_lower_shadow && !*is_shadow => format!("; {name} is enforced, and a lower one in shadow"),
                [] => String::new(),
                bare => format!("; without {name}, packets that arrive on {} would not be limited", some(bare)),
            };
            for lower in &below {
                taken.remove(lower);
            }
            taken.insert(upper.index);
            replaced.insert(upper.index, why);
        }
    }
    let mut reasons = BTreeMap::new();
    for (interface, name, _) in &sorted {
        if taken.contains(&interface.index) {
            continue;
        }
        let mut related = stack.below(interface.index).chain(stack.above(interface.index));
        let Some(other) = related.find(|other| taken.contains(&other.index)) else {
            // What kept it off was replaced itself.
            taken.insert(interface.index);
            continue;
        };
        let is_above = stack.is_below(other.index, interface.index);
        let place = if is_above { "above" } else { "below" };
        let bare = if is_above { stack.bare(interface.index, &taken) } else { Vec::new() };
        let more = match &*bare.iter().map(|port| port.name.as_str()).collect::<Vec<_>>() {
            [] => replaced.get(&other.index).filter(|_| !is_above).cloned().unwrap_or_default(),
            bare => format!("; packets that arrive on {} are not limited, unless the file lists it", some(bare)),
        };
        let why = format!("it is {place} {}, and packets through both would be charged twice{more}", other.name);
        reasons.insert(*name, why);
    }
    reasons
}

/// Returns the first of these names, and how many there are besides.
fn some(names: &[&str]) -> String {
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::InfoKind;

    use super::*;
    use crate::sys::layers::tests::interface;

    fn port(index: u32, name: &str, controller: u32) -> Interface {
        Interface { controller: Some(controller), ..interface(index, name, None) }
    }

    /// A bridge with two ports, one of which has a VLAN, a VLAN of the bridge, and a bond with two members.
    fn host() -> [Interface; 8] {
        [
            port(2, "eth0", 4),
            port(3, "vnet0", 4),
            interface(4, "br0", Some(InfoKind::Bridge)),
            Interface { base: Some(4), ..interface(5, "br0.7", Some(InfoKind::Vlan)) },
            Interface { base: Some(2), ..interface(6, "eth0.5", Some(InfoKind::Vlan)) },
            port(7, "eth1", 9),
            port(8, "eth2", 9),
            interface(9, "bond0", Some(InfoKind::Bond)),
        ]
    }

    /// Returns which of these are attached. An `!` marks one in shadow.
    fn taken(listed: &[&'static str]) -> Vec<&'static str> {
        let all = host();
        let listed: Vec<_> =
            listed.iter().map(|name| name.strip_prefix('!').map_or((*name, false), |name| (name, true))).collect();
        let left_off = choose(&Stack::of(&all), &all, &listed, &BTreeSet::new());
        listed.iter().map(|(name, _)| *name).filter(|name| !left_off.contains_key(name)).collect()
    }

    #[test]
    fn an_upper_interface_stays_if_a_lower_one_would_be_bare() {
        assert_eq!(taken(&["br0", "vnet0"]), ["br0"]);
        assert_eq!(taken(&["br0", "vnet0", "eth0"]), ["vnet0", "eth0"]);
        assert_eq!(taken(&["vnet0", "eth0"]), ["vnet0", "eth0"]);
        assert_eq!(taken(&["br0.7", "eth0"]), ["br0.7"]);
        assert_eq!(taken(&["br0.7", "br0", "eth0"]), ["br0"]);
        assert_eq!(taken(&["br0.7", "br0"]), ["br0"]);
        assert_eq!(taken(&["br0.7", "eth0", "vnet0"]), ["eth0", "vnet0"]);
        // What the replaced one kept off is attached.
        assert_eq!(taken(&["eth0.5", "eth0", "br0"]), ["eth0.5", "br0"]);
        assert_eq!(taken(&["bond0", "eth1"]), ["bond0"]);
        assert_eq!(taken(&["eth2", "bond0", "eth1"]), ["bond0"]);
        assert!(taken(&["gone"]) == ["gone"] && taken(&[]).is_empty());
    }

    #[test]
    fn nothing_in_shadow_replaces_what_is_enforced() {
        assert_eq!(taken(&["br0", "!vnet0", "eth0"]), ["br0"]);
        assert_eq!(taken(&["br0", "!vnet0", "!eth0"]), ["br0"]);
        assert_eq!(taken(&["!br0", "vnet0"]), ["vnet0"]);
        assert_eq!(taken(&["!br0", "!vnet0"]), ["br0"]);
        assert_eq!(taken(&["!br0", "!vnet0", "eth0"]), ["vnet0", "eth0"]);
        assert_eq!(taken(&["!bond0", "eth1"]), ["eth1"]);
        assert_eq!(taken(&["br0.7", "!br0"]), ["br0.7"]);
    }

    #[test]
    fn the_reason_names_both_and_what_would_be_bare() {
        let all = host();
        let of = |listed: &[(&'static str, bool)]| choose(&Stack::of(&all), &all, listed, &BTreeSet::new());
        let twice = "and packets through both would be charged twice";
        let lower = of(&[("br0", false), ("vnet0", false)]);
        let why = format!("it is below br0, {twice}; without br0, packets that arrive on eth0 would not be limited");
        assert_eq!(lower, BTreeMap::from([("vnet0", why)]));
        let upper = of(&[("br0", false), ("vnet0", false), ("eth0", false)]);
        assert_eq!(upper, BTreeMap::from([("br0", format!("it is above eth0, {twice}"))]));
        let shadow = of(&[("br0", false), ("vnet0", true), ("eth0", true)]);
        assert!(shadow["eth0"].ends_with("; br0 is enforced, and a lower one in shadow"), "{shadow:?}");
        let many: Vec<String> = (0..10).map(|number| format!("tap{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(some(&many), "tap0, tap1, tap2, tap3, tap4, tap5, tap6, tap7 and 2 more");
    }

    #[test]
    fn thousands_of_interfaces_are_divided_at_once() {
        let mut all = vec![interface(1, "br0", Some(InfoKind::Bridge)), port(2, "tap0", 1)];
        let names: Vec<String> = (0..6_000).map(|number| format!("vnet{number}")).collect();
        all.extend(names.iter().zip(3..).map(|(name, index)| port(index, name, 1)));
        let mut listed: Vec<_> = names.iter().map(|name| (name.as_str(), false)).collect();
        listed.push(("br0", false));
        let begin = std::time::Instant::now();
        assert_eq!(choose(&Stack::of(&all), &all, &listed, &BTreeSet::new()).len(), 6_000);
        listed.push(("tap0", false));
        assert_eq!(choose(&Stack::of(&all), &all, &listed, &BTreeSet::new()).len(), 1);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}
