//! Attaches to interfaces, and detaches from those that a file no longer lists.
//!
//! The pins of interfaces that a file attached have a mark in their names, which exists as long as the link. Such an
//! interface is detached as the last step of a reload, when every rule is written. If that fails, everything else
//! stays, and a warning tells so.

use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Error, Instance,
    attach::{
        attachment::{Attachment, Attachments, How, Mode},
        twice,
    },
    program::programs::Kind,
    sys::{
        interface::{self, Attached, Interface, is_there},
        layers, signals,
    },
};

use super::undo::Done;
use crate::config;

/// An interface to attach to.
#[derive(Debug, Clone)]
pub struct RequestedInterface {
    pub name: String,
    /// Without one, a new interface gets native mode.
    pub mode: Option<Mode>,
    /// Whether a new interface is in shadow, although others may not be.
    pub shadow: bool,
}

/// The interfaces to attach to.
pub type Requested = Vec<RequestedInterface>;

/// Checks that the interfaces with these names exist, and that a program can read their packets.
///
/// # Errors
///
/// Fails with [`Error::UnknownInterface`] or [`Error::LinkType`] for the first one for which this is not so.
pub fn check(names: &[String]) -> Result<(), Error> {
    interface::find(names)?.iter().try_for_each(|interface| interface.first_header().map(drop))
}

/// The interfaces of a file.
pub struct Listed {
    /// Those that exist.
    pub present: Vec<config::Interface>,
    /// Those that do not exist, and that the daemon waits for.
    pub awaited: Vec<config::Interface>,
}

impl Listed {
    /// Finds the interfaces. Checks that a program can read their packets.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::LinkType`] for the first one whose packets no program can read. Fails with
    /// [`Error::UnknownInterface`] for the first one that does not exist and that the daemon must not wait for.
    pub fn find(listed: &[config::Interface]) -> Result<Self, Error> {
        let all = interface::list()?;
        let is_awaited = |wanted: &config::Interface| wanted.wait && !is_there(&all, &wanted.name);
        let (awaited, present): (Vec<_>, Vec<_>) = listed.iter().cloned().partition(is_awaited);
        let names: Vec<String> = present.iter().map(|wanted| wanted.name.clone()).collect();
        check(&names)?;
        Ok(Self { present, awaited })
    }
}

/// Checks that no interface runs in another mode than requested. The kernel cannot change the mode without a gap.
///
/// # Errors
///
/// Fails with [`Error::OtherMode`] for the first one that does.
pub fn check_modes(instance: &Instance, requested: &Requested) -> Result<(), Error> {
    let ours = running(instance)?;
    for (interface, RequestedInterface { mode, .. }) in find(requested)? {
        let Some(running) = interface.program.filter(|running| ours.contains(&running.id)) else { continue };
        let is_same = match mode {
            Some(Mode::Native) => running.mode == Attached::Native,
            Some(Mode::Generic) => running.mode == Attached::Generic,
            Some(Mode::Auto) | None => true,
        };
        if !is_same {
            return Err(Error::OtherMode { name: interface.name, running: running.mode.name() });
        }
    }
    Ok(())
}

/// How interfaces are attached, apart from their modes.
#[derive(Clone, Copy)]
pub struct Manner<'a> {
    /// Whether programs of other owners are replaced.
    pub replace: bool,
    /// Origin of the attachments: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
    /// Which attached interfaces make room for one below them. The kernel refuses a program below another one, so such an
    /// interface is detached first.
    pub makes_room: &'a dyn Fn(&Attachment) -> bool,
}

/// Attaches to each interface that does not run this program yet, and returns their names. Lower interfaces come first,
/// because the kernel refuses a program below another one.
///
/// # Errors
///
/// Fails like [`check_modes`], [`twice::check`], [`Instance::expect_interfaces`] and [`Attachments::attach`]. `done`
/// records the steps before that.
pub fn attach(
    instance: &mut Instance,
    requested: &Requested,
    Manner { replace, origin, makes_room }: Manner<'_>,
    done: &mut Done,
) -> Result<Vec<String>, Error> {
    check_modes(instance, requested)?;
    // This must come before the first packet of a second interface. It can replace the program.
    let linked = instance.attachments.indices()?;
    let with_shadow = find(requested)?.iter().any(|(interface, one)| one.shadow && !linked.contains(&interface.index));
    let coming: Vec<Interface> = find(requested)?.into_iter().map(|(interface, _)| interface).collect();
    let with_shadows: Vec<_> = find(requested)?.into_iter().map(|(interface, one)| (interface, one.shadow)).collect();
    twice::check(&with_shadows, &instance.attachments.list()?, makes_room)?;
    done.expect_interfaces(instance, &coming, with_shadow)?;
    let (ours, programs) = (running(instance)?, instance.programs()?);
    let (mut names, all, mut found) = (Vec::new(), interface::list()?, find(requested)?);
    layers::sort_lower_first(&all, &mut found, |(interface, _)| interface.index);
    for (mut interface, RequestedInterface { mode, shadow, .. }) in found {
        signals::check()?;
        if done.made_room().any(|name| name == interface.name) {
            interface.program = None;
        }
        let is_ours = interface.program.is_some_and(|running| ours.contains(&running.id));
        if !is_ours || !linked.contains(&interface.index) {
            names.push(interface.name.clone());
            let how = How { mode: mode.unwrap_or(Mode::Native), replace, origin, shadow };
            let program = programs.of(Kind { first: interface.first_header()?, is_shadow: shadow })?;
            done.make_room(instance, &all, &interface, makes_room)?;
            done.added.push(instance.attachments.attach(program, interface, how)?);
        }
    }
    signals::check()?;
    Ok(names)
}

/// Detaches from interfaces that an earlier file listed. Returns their names, and the first failure.
pub fn detach_unlisted(attachments: &Attachments, listed: &[config::Interface]) -> (Vec<String>, Option<Error>) {
    let is_unlisted = |attachment: &Attachment| {
        attachment.origin == CONFIG && listed.iter().all(|wanted| wanted.name != attachment.name)
    };
    match attachments.list() {
        Ok(all) => detach_each(all.into_iter().filter(is_unlisted), |unlisted| (unlisted.detach(), unlisted.name)),
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// Detaches each one, also after a failure. Returns the names, and the first failure.
fn detach_each<T>(
    all: impl Iterator<Item = T>,
    detach: impl Fn(T) -> (Result<(), Error>, String),
) -> (Vec<String>, Option<Error>) {
    let (mut names, mut failure) = (Vec::new(), None);
    for (outcome, name) in all.map(detach) {
        match outcome {
            Ok(()) => names.push(name),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    (names, failure)
}

/// Returns the ids of the instance's running programs.
fn running(instance: &Instance) -> Result<Vec<u32>, Error> {
    Ok(instance.attachments.list()?.iter().map(|attachment| attachment.program_id).collect())
}

fn find(requested: &Requested) -> Result<Vec<(Interface, RequestedInterface)>, Error> {
    let names: Vec<String> = requested.iter().map(|one| one.name.clone()).collect();
    // An interface that is named twice gets the first mode.
    let of = |interface: Interface| {
        let requested = requested.iter().find(|one| one.name == interface.name)?.clone();
        Some((interface, requested))
    };
    Ok(interface::find(&names)?.into_iter().filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detached_interfaces_are_returned_even_if_others_fail() {
        let detach = |name: &str| {
            let outcome = if name == "wan0" { Err(Error::Netlink("no".to_owned())) } else { Ok(()) };
            (outcome, name.to_owned())
        };
        let (names, failure) = detach_each(["eth0", "wan0", "eth1"].into_iter(), detach);
        assert_eq!(names, ["eth0", "eth1"]);
        assert!(matches!(failure, Some(Error::Netlink(_))));
    }
}
