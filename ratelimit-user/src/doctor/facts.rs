//! What the checks of an interface know of it.

use ratelimit_dataplane::sys::{drivers::Refusal, interface::Attached, xdp_features::XdpFeatures};

/// Properties of an interface.
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    /// The name of its driver.
    pub(super) driver: String,
    /// What the driver supports, if the kernel reports it.
    pub(super) can: Option<XdpFeatures>,
    /// The mode of the program, if it is attached.
    pub(super) mode: Option<Attached>,
    /// Why its driver would refuse a native program now, as far as that is known.
    pub(super) refusal: Option<Refusal>,
    /// How to attach it again in another mode, in words, if a command would lose something.
    pub(super) by_hand: Option<String>,
}

impl Facts<'_> {
    /// Returns whether the program runs in the network stack, or would after an attach.
    pub(super) fn is_generic(&self) -> bool {
        self.mode.map_or(self.can.is_some_and(|can| !can.native), |mode| mode == Attached::Generic)
    }

    /// Returns the command that attaches.
    pub(super) fn attach(&self) -> String {
        let cannot = self.can.is_some_and(|can| !can.native);
        format!("ratelimit attach {}{}", self.name, if cannot { " --mode generic" } else { "" })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::finding::{Finding, Severity},
        *,
    };

    pub(in crate::doctor) const ALL: XdpFeatures = XdpFeatures { native: true, several_buffers: true };

    pub(in crate::doctor) fn facts(driver: &str, can: Option<XdpFeatures>, mode: Option<Attached>) -> Facts<'static> {
        Facts { name: "eth0", driver: driver.to_owned(), can, mode, refusal: None, by_hand: None }
    }

    /// Returns the severity of a finding, and the command that fixes it.
    pub(in crate::doctor) fn brief(finding: Option<Finding>) -> Option<(Severity, Option<String>)> {
        finding.map(|finding| (finding.severity, finding.fix))
    }
}
