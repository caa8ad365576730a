//! Where answers of a native program are lost: on a veth whose other end cannot receive them. It can with an XDP program
//! or with GRO, which both make it poll (`veth_xdp_xmit` in drivers/net/veth.c, Linux 5.13 to 6.18).

use netlink_packet_route::link::InfoKind;

use super::{
    ethtool::Ethtool,
    interface::{self, Attached, Interface},
};

/// A veth that may lose answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostAnswers {
    /// The other end. None if it is in another network namespace, so that nobody can tell.
    pub peer: Option<String>,
}

impl LostAnswers {
    /// Returns this in words, without the interface.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.peer {
            Some(peer) => format!("answers are lost, because {peer}, its other end, has neither GRO nor an XDP program"),
            None => "answers are lost unless its other end, which cannot be seen from this network namespace, has GRO or an XDP program. To see to that, run there: `ethtool -K NAME gro on`".to_owned(),
        }
    }

    /// Returns the command after which they are not lost. None if it must run elsewhere.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        self.peer.as_ref().map(|peer| format!("ethtool -K {peer} gro on"))
    }
}

/// Returns whether answers of the program on this interface are lost.
#[must_use]
pub fn of(all: &[Interface], interface: &Interface) -> Option<LostAnswers> {
    let is_gro_on = |peer: &Interface| {
        Ethtool::of(&peer.name).ok().and_then(|ethtool| ethtool.feature("rx-gro")).is_some_and(|it| it.is_on)
    };
    find(all, interface, &is_gro_on)
}

/// Returns a line for each of these interfaces whose answers are lost.
#[must_use]
pub fn notices(names: &[String]) -> Vec<String> {
    let all = interface::list().unwrap_or_default();
    let named = all.iter().filter(|interface| names.contains(&interface.name));
    let line = |interface: &Interface| {
        let lost = of(&all, interface)?;
        let fix = lost.fix().map_or_else(String::new, |fix| format!(": `{fix}`"));
        Some(format!("{}: {}{fix}", interface.name, lost.text()))
    };
    named.filter_map(line).collect()
}

fn find(all: &[Interface], interface: &Interface, is_gro_on: &dyn Fn(&Interface) -> bool) -> Option<LostAnswers> {
    let is_native = |interface: &Interface| interface.program.is_some_and(|it| it.mode == Attached::Native);
    if !is_native(interface) || interface.link_type.kind() != Some(&InfoKind::Veth) {
        return None;
    }
    match all.iter().find(|other| Some(other.index) == interface.peer) {
        Some(peer) if is_native(peer) || is_gro_on(peer) => None,
        peer => Some(LostAnswers { peer: peer.map(|peer| peer.name.clone()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{interface::Program, layers::tests::interface};

    #[test]
    fn only_a_native_veth_with_a_peer_that_does_not_poll_loses_answers() {
        let on = |mode| Some(Program { id: 1, mode });
        let veth =
            |index, name, peer, program| Interface { peer, program, ..interface(index, name, Some(InfoKind::Veth)) };
        let native = veth(2, "a", Some(3), on(Attached::Native));
        let of = |other: Option<Interface>, one: &Interface, gro: bool| {
            let all: Vec<Interface> = other.into_iter().chain([one.clone()]).collect();
            find(&all, one, &|_| gro)
        };
        let here = Some(veth(3, "b", Some(2), None));
        let lost = of(here.clone(), &native, false).unwrap();
        assert_eq!(lost.fix().as_deref(), Some("ethtool -K b gro on"));
        assert_eq!(of(here.clone(), &native, true), None);
        assert_eq!(of(Some(veth(3, "b", Some(2), on(Attached::Native))), &native, false), None);
        assert!(of(Some(veth(3, "b", Some(2), on(Attached::Generic))), &native, false).is_some());
        assert_eq!(of(None, &Interface { peer: None, ..native.clone() }, false), Some(LostAnswers { peer: None }));
        assert_eq!(of(here.clone(), &Interface { program: on(Attached::Generic), ..native.clone() }, false), None);
        assert_eq!(of(here, &Interface { program: None, ..native }, false), None);
    }
}
