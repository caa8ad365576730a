//! Checks of the interfaces above and below one: which of them to attach.

use ratelimit_dataplane::{attach::twice::Twice, sys::interface::Interface};

use super::{
    finding::{Check, Finding},
    instance::Ours,
};

/// Returns the findings about attached interfaces that the same packets pass.
pub(super) fn examine(all: &[Interface], interface: &Interface, ours: &Ours) -> Vec<Finding> {
    let is_attached = ours.has(interface);
    related(all, interface, ours).map(|twice| finding(&twice, is_attached)).collect()
}

/// Returns whether an attached interface limits packets of this one.
pub(super) fn is_covered(all: &[Interface], interface: &Interface, ours: &Ours) -> bool {
    related(all, interface, ours).next().is_some()
}

fn related<'a>(all: &'a [Interface], interface: &'a Interface, ours: &'a Ours) -> impl Iterator<Item = Twice> {
    let attached = all.iter().filter(|other| other.index != interface.index && ours.has(other));
    attached.filter_map(|other| Twice::of(all, &interface.name, &other.name))
}

/// `is_attached` tells whether the interface is attached beside the other one.
fn finding(twice: &Twice, is_attached: bool) -> Finding {
    let (name, other) = (&twice.name, &twice.other);
    if is_attached {
        let (upper, lower) = if twice.is_above { (name, other) } else { (other, name) };
        let what = format!("{twice}, and both are attached");
        let why = "Packets through both are charged twice. So a source gets about half of its limit.";
        if twice.beside.is_empty() {
            return Finding::warning(Check::Interface, &what, why).fixed_by(format!("ratelimit detach {upper}"));
        }
        // Neither interface alone sees everything.
        let beside = twice.beside.join(", ");
        let why = format!(
            "{why} Keep {lower}, and attach {beside} instead of {upper}. Or keep {upper}, which does not limit what it forwards."
        );
        return Finding::warning(Check::Interface, &what, &why);
    }
    if twice.is_above {
        let why = "Packets that come from there are limited. Packets from other interfaces below this one are not, unless these are attached too.";
        return Finding::note(Check::Interface, &format!("not attached, but {other} below it is"), why);
    }
    let why = "Packets that go on to that one are limited there. Those that the host forwards before are not.";
    Finding::note(Check::Interface, &format!("not attached, but {other} above it is"), why)
}
