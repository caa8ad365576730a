//! Two interfaces that the same packets pass, one above the other. If one instance has both, it charges each packet
//! twice. Nothing in a packet tells the second program that the first one has charged it: the kernel drops the metadata
//! of a native program before a generic one runs (`bpf_prog_run_generic_xdp` in net/core/dev.c, Linux 6.18).

use std::{fmt, path::Path};

use crate::{
    Error,
    attach::{attachment::Attachment, occupant::Occupant},
    pins::ours::Ours,
    sys::{
        interface::{self, Interface},
        layers,
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
    /// The further interfaces directly below the upper one.
    pub beside: Vec<String>,
}

impl Twice {
    /// Returns whether packets pass both interfaces. None if not, or if one does not exist.
    #[must_use]
    pub fn of(all: &[Interface], name: &str, other: &str) -> Option<Self> {
        let find = |name: &str| all.iter().find(|interface| interface.name == name);
        let (one, two) = (find(name)?, find(other)?);
        let is_below = |lower: &Interface, upper| layers::below(all, upper).iter().any(|it| it.index == lower.index);
        let is_above = is_below(two, one);
        if !is_above && !is_below(one, two) {
            return None;
        }
        let (upper, lower) = if is_above { (one, two) } else { (two, one) };
        let is_beside = |port: &&Interface| port.controller == Some(upper.index) && !is_same_or_below(all, lower, port);
        let beside = all.iter().filter(is_beside).map(|port| port.name.clone()).collect();
        Some(Self { name: name.to_owned(), other: other.to_owned(), is_above, beside })
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
    pub fn beside_attached(self) -> Error {
        let Self { other, .. } = &self;
        let keep = match (self.is_above, &*self.beside) {
            (true, []) | (false, _) => format!("keep {other}"),
            (true, beside) => format!("keep {other}, and attach {} too if its packets count", beside.join(", ")),
        };
        let advice = format!("{keep}; or run `ratelimit detach {other}` first, then attach {}", self.name);
        Error::Twice { both: format!("{self}, which is attached"), advice }
    }

    /// Returns the error of an attach to both.
    #[must_use]
    pub fn both(self) -> Error {
        let (upper, lower) = if self.is_above { (&self.name, &self.other) } else { (&self.other, &self.name) };
        let beside: String = self.beside.iter().map(|port| format!(" and {port}")).collect();
        let advice = format!("attach {lower}{beside}, or {upper} alone");
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

/// Returns whether `lower` is this port, or below it.
fn is_same_or_below(all: &[Interface], lower: &Interface, port: &Interface) -> bool {
    lower.index == port.index || layers::below(all, port).iter().any(|below| below.index == lower.index)
}

/// Checks that none of the `coming` interfaces has an attached one above or below it, or another coming one. Those that
/// are attached already stay as they are. Attachments that make room do not count.
///
/// # Errors
///
/// [`Error::Twice`] for the first one.
pub fn check(
    coming: &[Interface],
    attached: &[Attachment],
    makes_room: &dyn Fn(&Attachment) -> bool,
) -> Result<(), Error> {
    let all = interface::list()?;
    let is_attached = |name: &str| attached.iter().any(|attachment| attachment.is_on(name));
    let staying = |attachment: &&Attachment| attachment.mode.is_some() && !makes_room(attachment);
    for (place, one) in coming.iter().enumerate().filter(|(_, one)| !is_attached(&one.name)) {
        let beside = attached.iter().filter(staying).find_map(|other| Twice::of(&all, &one.name, &other.name));
        if let Some(twice) = beside {
            return Err(twice.beside_attached());
        }
        let both = coming.iter().take(place).find_map(|other| Twice::of(&all, &one.name, &other.name));
        if let Some(twice) = both {
            return Err(twice.both());
        }
    }
    Ok(())
}

/// Returns the error of an attach below an interface that has a program of another owner than the instance in `pins`. The
/// kernel refuses it in every mode.
pub fn blocked(all: &[Interface], lower: &Interface, pins: &Path) -> Option<Error> {
    // Without privileges, nobody knows.
    let ours = Ours::of(pins).ok()?;
    layers::directly_above(all, lower).find_map(|upper| {
        let program = upper.program.filter(|program| !ours.has_program(program.id))?;
        Some(above(lower, upper, &Occupant::of(upper, program)))
    })
}

/// Returns the error of an attach below an interface that has any program.
pub(super) fn refused(lower: &Interface) -> Option<Error> {
    let all = interface::list().ok()?;
    let lower = all.iter().find(|interface| interface.index == lower.index)?;
    let (upper, program) =
        layers::directly_above(&all, lower).find_map(|upper| upper.program.map(|program| (upper, program)))?;
    Some(above(lower, upper, &Occupant::of(upper, program)))
}

fn above(lower: &Interface, upper: &Interface, occupant: &Occupant) -> Error {
    Error::Above {
        name: lower.name.clone(),
        upper: upper.name.clone(),
        program: occupant.to_string(),
        removal: occupant.removal(),
    }
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
        let of = |name, other| Twice::of(&all, name, other);
        assert_eq!(of("eth0", "tap0"), None);
        assert_eq!(of("eth1", "br0"), None);
        assert_eq!(of("br0", "gone"), None);
        let text = |error: Error| error.to_string();
        let upper = "br0 is above eth0, which is attached: packets through both would be charged twice: keep eth0, and attach tap0 too if its packets count; or run `ratelimit detach eth0` first, then attach br0";
        assert_eq!(text(of("br0", "eth0").unwrap().beside_attached()), upper);
        let lower = "eth0 is below br0, which is attached: packets through both would be charged twice: keep br0; or run `ratelimit detach br0` first, then attach eth0";
        assert_eq!(text(of("eth0", "br0").unwrap().beside_attached()), lower);
        let advice = "packets through both would be charged twice: attach eth0 and tap0, or br0 alone";
        assert_eq!(text(of("br0", "eth0").unwrap().both()), format!("br0 is above eth0: {advice}"));
        assert_eq!(text(of("eth0", "br0").unwrap().both()), format!("eth0 is below br0: {advice}"));
        let uncovered = "; packets that arrive on tap0 are not limited, unless the file lists it";
        assert_eq!(of("br0", "eth0").unwrap().uncovered(), uncovered);
        assert_eq!(of("eth0", "br0").unwrap().uncovered(), "");
    }
}
