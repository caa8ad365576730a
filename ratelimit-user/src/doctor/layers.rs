//! Checks of the interfaces above and below one: which of them to attach.

use ratelimit_dataplane::{
    attach::twice::Twice,
    sys::{interface::Interface, layers::Stack},
};

use super::{
    finding::{Check, Finding},
    instance::Ours,
};

/// Returns the findings about attached interfaces that the same packets pass.
pub(super) fn examine(all: &[Interface], interface: &Interface, ours: &Ours) -> Vec<Finding> {
    let is_attached = ours.has(interface);
    let is_shadow = |name: &str| ours.attachments.iter().any(|one| one.is_on(name) && one.is_shadow());
    related(all, interface, ours).iter().map(|twice| finding(twice, is_attached, &is_shadow)).collect()
}

/// Returns whether an attached interface limits packets of this one.
pub(super) fn is_covered(all: &[Interface], interface: &Interface, ours: &Ours) -> bool {
    !related(all, interface, ours).is_empty()
}

fn related(all: &[Interface], interface: &Interface, ours: &Ours) -> Vec<Twice> {
    let stack = Stack::of(all);
    let others = stack.below(interface.index).chain(stack.above(interface.index)).filter(|other| ours.has(other));
    let mut found: Vec<_> = others.filter_map(|other| Twice::of(&stack, &interface.name, &other.name)).collect();
    let is_attached = |name: &String| stack.named(name).is_some_and(|other| ours.has(other));
    found.iter_mut().for_each(|twice| twice.beside.retain(|name| !is_attached(name)));
    found
}

/// `is_attached` tells whether the interface is attached beside the other one, and `is_shadow` which ones are in shadow.
fn finding(twice: &Twice, is_attached: bool, is_shadow: &dyn Fn(&str) -> bool) -> Finding {
    let (name, other) = (&twice.name, &twice.other);
    if is_attached {
        let (upper, lower) = if twice.is_above { (name, other) } else { (other, name) };
        let what = format!("{twice}, and both are attached");
        let why = "Packets through both are charged twice. So a source gets about half of its limit.";
        let keeps_upper = twice.prefers_upper(is_shadow(upper), is_shadow(lower));
        let more = match &*twice.beside {
            _ if is_shadow(lower) != is_shadow(upper) => {
                format!(" Keep {}: the other one is in shadow.", if keeps_upper { upper } else { lower })
            }
            _ if twice.is_bond => format!(" Keep {upper}, which receives what any of its members does."),
            [] => String::new(),
            beside => format!(
                " Keep {upper}: without it, packets that arrive on {} are not limited. Or attach these instead of {upper}, to limit also what it forwards.",
                beside.join(", ")
            ),
        };
        let detached = if keeps_upper { lower } else { upper };
        return Finding::warning(Check::Interface, &what, &format!("{why}{more}"))
            .fixed_by(format!("ratelimit detach {detached}"));
    }
    if twice.is_above {
        let why = "Packets that come from there are limited. Packets from other interfaces below this one are not, unless these are attached too.";
        return Finding::note(Check::Interface, &format!("not attached, but {other} below it is"), why);
    }
    let why = "Packets that go on to that one are limited there. Those that the host forwards before are not.";
    Finding::note(Check::Interface, &format!("not attached, but {other} above it is"), why)
}
