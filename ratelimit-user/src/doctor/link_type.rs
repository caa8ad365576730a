//! Checks of the link type of an interface.

use ratelimit_dataplane::sys::{interface::Interface, link_type::FirstHeader};

use super::{
    finding::{Check, Finding},
    instance::Ours,
};

/// Returns the finding about the link type. Interfaces with Ethernet headers have none.
pub(super) fn examine(interface: &Interface, ours: &Ours) -> Option<Finding> {
    let (name, link_type) = (&interface.name, interface.link_type.name());
    let attached = interface.program.filter(|_| ours.has(interface));
    match (interface.link_type.first_header(), attached) {
        (Some(FirstHeader::Ethernet), _) => None,
        (Some(FirstHeader::Ip), Some(program)) if !ours.raw_programs.contains(&program.id) => {
            let why = "The program expects Ethernet headers, which this interface does not have. No packet is limited.";
            let what = format!("attached with the wrong program for its link type ({link_type})");
            Some(Finding::error(Check::LinkType, &what, why).fixed_by(format!("ratelimit attach {name}")))
        }
        (Some(FirstHeader::Ip), _) => {
            Some(Finding::ok(Check::LinkType, &format!("packets begin with the IP header ({link_type})")))
        }
        (None, None) => {
            let what = format!("ratelimit cannot read packets of this link type ({link_type})");
            Some(Finding::error(Check::LinkType, &what, "`ratelimit attach` refuses this interface."))
        }
        (None, Some(_)) => {
            let what = format!("attached, but ratelimit cannot read packets of this link type ({link_type})");
            let why = "It had another type, or an earlier version has attached it. Its packets count for wrong sources, or pass without a limit.";
            Some(Finding::error(Check::LinkType, &what, why).fixed_by(format!("ratelimit detach {name}")))
        }
    }
}
