//! Two interfaces that the same packets pass, one above the other. If one instance has both, it charges each packet
//! twice. Nothing in a packet tells the second program that the first one has charged it: the kernel drops the metadata
//! of a native program before a generic one runs (`bpf_prog_run_generic_xdp` in net/core/dev.c, Linux 6.18).

use std::{collections::BTreeSet, fmt};

use crate::{
    Error,
    attach::attachment::Attachment,
    sys::{
        interface::{self, Interface},
        layers::{self, Stack},
    },
};

/// An interface, and another one that the same packets pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twice {
    /// The interface.
    pub name: String,
    /// The other one.
    pub other: String,
    /// Whether the other one is the lower one.
    pub is_above: bool,
    /// The further interfaces from which packets come to the upper one.
    pub beside: Vec<String>,
    /// Whether the upper one is a bond or a team.
    pub is_bond: bool,
}

impl Twice {
    /// Returns whether packets pass both interfaces. None if not, or if one does not exist.
    #[must_use]
    pub fn of(stack: &Stack<'_>, name: &str, other: &str) -> Option<Self> {
        let (one, two) = (stack.named(name)?, stack.named(other)?);
        let is_above = stack.is_below(two.index, one.index);
        if !is_above && !stack.is_below(one.index, two.index) {
            return None;
        }
        let (upper, lower) = if is_above { (one, two) } else { (two, one) };
        let beside = stack.bare(upper.index, &BTreeSet::from([lower.index]));
        let beside = beside.into_iter().map(|port| port.name.clone()).collect();
        Some(Self { name: name.to_owned(), other: other.to_owned(), is_above, beside, is_bond: layers::is_bond(upper) })
    }

    /// Returns the first of these interfaces whose packets pass this one, too.
    pub fn first(stack: &Stack<'_>, name: &str, others: &BTreeSet<&str>) -> Option<Self> {
        let index = stack.named(name)?.index;
        let mut related = stack.below(index).chain(stack.above(index));
        let other = related.find(|other| others.contains(other.name.as_str()))?;
        Self::of(stack, name, &other.name)
    }

    /// Returns whether the upper one is to be attached instead of the lower one, by whether each is in shadow.
    #[must_use]
    pub fn prefers_upper(&self, is_upper_shadow: bool, is_lower_shadow: bool) -> bool {
        prefers_upper(self.is_bond || !self.beside.is_empty(), is_upper_shadow, is_lower_shadow)
    }

    /// Returns why both are not attached, if the other one is. `about` says more about that one.
    #[must_use]
    pub fn reason(&self, about: &str) -> String {
        let Self { other, .. } = self;
        format!("it is {} {other}{about}, and packets through both would be charged twice", self.place())
    }

    /// Returns what is not limited while only the other one is attached.
    #[must_use]
    pub fn uncovered(&self) -> String {
        match &*self.beside {
            beside if self.is_above && !beside.is_empty() => {
                format!("; packets that arrive on {} are not limited, unless the file lists it", beside.join(", "))
            }
            _ => String::new(),
        }
    }

    /// Returns the error of an attach to this interface while the other one is attached.
    #[must_use]
    pub fn beside_attached(self, is_shadow: bool, is_other_shadow: bool) -> Error {
        let Self { name, other, beside, .. } = &self;
        let detach = format!("run `ratelimit detach {other}` first, then attach {name}");
        let advice = if !self.is_above {
            format!("keep {other}; or {detach}")
        } else if is_other_shadow && !is_shadow {
            format!("{other} is in shadow, and limits nothing: {detach}")
        } else if self.is_bond {
            detach
        } else if beside.is_empty() {
            format!("keep {other}; or {detach}")
        } else {
            format!("{detach}; or keep {other}, and attach {} too", beside.join(", "))
        };
        Error::Twice { both: format!("{self}, which is attached"), advice }
    }

    /// Returns the error of an attach to both.
    #[must_use]
    pub fn both(self) -> Error {
        let (upper, lower) = if self.is_above { (&self.name, &self.other) } else { (&self.other, &self.name) };
        let beside: String = self.beside.iter().map(|port| format!(" and {port}")).collect();
        let advice = match (self.is_bond, self.beside.is_empty()) {
            (true, _) => format!("attach {upper} alone"),
            (false, true) => format!("attach {lower}, or {upper} alone"),
            (false, false) => format!("attach {upper} alone, or {lower}{beside}"),
        };
        Error::Twice { both: self.to_string(), advice }
    }

    fn place(&self) -> &'static str {
        if self.is_above { "above" } else { "below" }
    }
}

/// Writes which one is above the other.
impl fmt::Display for Twice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is {} {}", self.name, self.place(), self.other)
    }
}

/// Returns whether an upper interface is to be attached instead of lower ones. `is_wider` tells whether it is a bond, or
/// has packets that pass none of them. Nothing in shadow replaces what is enforced.
#[must_use]
pub fn prefers_upper(is_wider: bool, is_upper_shadow: bool, is_lower_shadow: bool) -> bool {
    if is_upper_shadow == is_lower_shadow { is_wider } else { is_lower_shadow }
}

/// Checks that none of the `coming` interfaces has an attached one above or below it, or another coming one. Those that
/// are attached already stay as they are. Attachments that make room do not count. With each coming one, there is whether
/// it will be in shadow alone.
///
/// # Errors
///
/// [`Error::Twice`] for the first one.
pub fn check(
    coming: &[(Interface, bool)],
    attached: &[Attachment],
    makes_room: &dyn Fn(&Attachment) -> bool,
) -> Result<(), Error> {
    let all = interface::list()?;
    let stack = Stack::of(&all);
    let here = || attached.iter().filter(|attachment| attachment.mode.is_some());
    let present: BTreeSet<&str> = here().map(|one| one.name.as_str()).collect();
    let staying: BTreeSet<&str> = here().filter(|one| !makes_room(one)).map(|one| one.name.as_str()).collect();
    let is_other_shadow = |name: &str| here().any(|other| other.name == name && other.is_shadow());
    let mut before = BTreeSet::new();
    for (one, is_shadow) in coming {
        if !present.contains(one.name.as_str()) {
            if let Some(twice) = Twice::first(&stack, &one.name, &staying) {
                let is_other_shadow = is_other_shadow(&twice.other);
                return Err(twice.beside_attached(*is_shadow, is_other_shadow));
            }
            if let Some(twice) = Twice::first(&stack, &one.name, &before) {
                return Err(twice.both());
            }
        }
        before.insert(one.name.as_str());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::InfoKind;

    use super::*;
    use crate::sys::layers::tests::interface;

    #[test]
    fn the_message_names_what_to_take_and_what_is_left() {
        let port = |index, name| Interface { controller: Some(9), ..interface(index, name, None) };
        let all =
            [port(2, "eth0"), port(3, "tap0"), interface(4, "eth1", None), interface(9, "br0", Some(InfoKind::Bridge))];
        let stack = Stack::of(&all);
        let of = |name, other| Twice::of(&stack, name, other);
        assert_eq!(of("eth0", "tap0"), None);
        assert_eq!(of("eth1", "br0"), None);
        assert_eq!(of("br0", "gone"), None);
        let text = |error: Error| error.to_string();
        let attached = |name, other| text(of(name, other).unwrap().beside_attached(false, false));
        let upper = "br0 is above eth0, which is attached: packets through both would be charged twice: run `ratelimit detach eth0` first, then attach br0; or keep eth0, and attach tap0 too";
        assert_eq!(attached("br0", "eth0"), upper);
        let lower = "eth0 is below br0, which is attached: packets through both would be charged twice: keep br0; or run `ratelimit detach br0` first, then attach eth0";
        assert_eq!(attached("eth0", "br0"), lower);
        let in_shadow = text(of("br0", "eth0").unwrap().beside_attached(false, true));
        assert!(
            in_shadow.ends_with(
                ": eth0 is in shadow, and limits nothing: run `ratelimit detach eth0` first, then attach br0"
            ),
            "{in_shadow}"
        );
        let advice = "packets through both would be charged twice: attach br0 alone, or eth0 and tap0";
        assert_eq!(text(of("br0", "eth0").unwrap().both()), format!("br0 is above eth0: {advice}"));
        assert_eq!(text(of("eth0", "br0").unwrap().both()), format!("eth0 is below br0: {advice}"));
        let uncovered = "; packets that arrive on tap0 are not limited, unless the file lists it";
        assert_eq!(of("br0", "eth0").unwrap().uncovered(), uncovered);
        assert_eq!(of("eth0", "br0").unwrap().uncovered(), "");
    }

    #[test]
    fn the_ports_of_every_controller_between_both_are_beside_the_lower_one() {
        let port = |index, name, controller| Interface { controller: Some(controller), ..interface(index, name, None) };
        let all = [
            port(2, "eth0", 4),
            port(3, "eth1", 4),
            Interface { controller: Some(6), ..interface(4, "bond0", Some(InfoKind::Bond)) },
            port(5, "tap0", 6),
            interface(6, "br0", Some(InfoKind::Bridge)),
            Interface { base: Some(6), ..interface(7, "br0.7", Some(InfoKind::Vlan)) },
        ];
        let stack = Stack::of(&all);
        let of = |name, other| Twice::of(&stack, name, other).unwrap();
        assert_eq!(of("br0.7", "eth0").beside, ["eth1", "tap0"]);
        assert_eq!(of("tap0", "br0.7").beside, ["bond0"]);
        assert_eq!(of("br0.7", "bond0").beside, ["tap0"]);
        assert!(of("br0.7", "br0").beside.is_empty() && !of("br0.7", "br0").prefers_upper(false, false));
        assert!(of("bond0", "eth0").is_bond && of("br0.7", "br0").prefers_upper(false, true));
        assert!(of("bond0", "eth0").prefers_upper(false, false) && !of("bond0", "eth0").prefers_upper(true, false));
    }
}
