//! Other hosts of a fleet without a server: whether limits apply to their datagrams.

use std::net::IpAddr;

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{identity::service::Transport, limits::policy::Policy};
use ratelimit_dataplane::{
    Error,
    rules::{resolve, services::Services, spec::RuleSpec},
    sys::{host, netlink::route},
    tables::open::Tables,
};
use ratelimit_protocol::fleet::Places;

use super::{
    finding::{Check, Finding},
    instance::Ours,
};

/// Returns a finding if the rules of this instance do not allow a peer that is reached through one of its interfaces.
pub(super) fn examine(tables: &Tables, ours: &Ours, places: &Places) -> Result<Option<Finding>, Error> {
    let services = Services::read(tables)?;
    let classes = services.classes(services.of_port(Transport::Udp, places.port));
    let mut limited = Vec::new();
    for peer in places.peers.iter().filter(|peer| !peer.is_loopback()) {
        let is_ours = |index: u32| ours.attachments.iter().any(|attachment| attachment.index == Some(index));
        if route::interface_to(*peer).is_some_and(is_ours) {
            let (spec, _) = resolve::of_address_at(tables, &Prefix::host(*peer), classes, host::now())?;
            if !is_free(&spec) {
                limited.push(*peer);
            }
        }
    }
    Ok(finding(&limited))
}

fn is_free(spec: &RuleSpec) -> bool {
    [Policy::ALLOWED, Policy::UNLIMITED].into_iter().any(|free| *spec == RuleSpec::from(free))
}

fn finding(limited: &[IpAddr]) -> Option<Finding> {
    if limited.is_empty() {
        return None;
    }
    let names = |between: &str| limited.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(between);
    let what = format!("no rule allows these peers: {}", names(", "));
    let why = "Their datagrams are limited as those of any source, and a flood in their name cuts them off. \
               Add them to allow in the file of the daemon.";
    Some(Finding::note(Check::Fleet, &what, why).fixed_by(format!("ratelimit allow add {}", names(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_the_peers_and_the_command_that_allows_them() {
        assert_eq!(finding(&[]), None);
        let found = finding(&["10.0.0.2".parse().unwrap(), "2001:db8::2".parse().unwrap()]).unwrap();
        assert_eq!(found.what, "no rule allows these peers: 10.0.0.2, 2001:db8::2");
        assert_eq!(found.fix.as_deref(), Some("ratelimit allow add 10.0.0.2 2001:db8::2"));
    }
}
