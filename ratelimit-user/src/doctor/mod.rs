//! What will hurt, before it does: looks at host, interfaces, traffic and tables, and changes nothing. One file, one group of checks: what is there is
//! read first, and plain functions decide what to say of it. It stands beside [`controller`](crate::controller), of which it asks only whether a daemon listens.

mod conflicts;
mod finding;
mod host;
mod instance;
mod interface;
mod session;
mod tables;
mod traffic;

use std::path::Path;

pub use finding::{Check, Finding, Severity};

use self::{
    instance::{Ours, Running, State},
    traffic::Window,
};
use crate::dataplane::{
    Error,
    instance::open::PINS,
    sys::{
        host as privileges,
        interface::{self as interfaces, Interface},
    },
};

/// Examines the host, and the interfaces with these names; where none is given, all that the instance in `pins` is attached to.
///
/// # Errors
///
/// [`Error`] where the kernel does not answer.
pub fn examine(pins: &Path, names: &[String]) -> Result<Vec<Finding>, Error> {
    let missing = privileges::missing_privileges()?;
    let as_root = as_root(pins, names);
    // Without privileges nothing of it can be opened.
    let (state, mut found) = if missing.is_empty() { instance::open(pins) } else { (State::Closed, Vec::new()) };
    let running = state.running();
    let ours = if missing.is_empty() { Ours::read(pins) } else { Ours::default() };
    let mut findings = host::examine(&missing, running.map(Running::is_jitted), &as_root);
    findings.append(&mut found);
    let all = interfaces::list()?;
    findings.extend(instance::examine(pins, &state, &ours, &all));
    let chosen = choose(&all, names, &ours, &mut findings);
    let window = Window::measure(&chosen, running, &ours)?;
    for interface in &chosen {
        findings.extend(interface::examine(interface, &ours, &as_root)?);
        findings.extend(traffic::losses(interface, &window)?);
    }
    if let Some(running) = running {
        findings.extend(traffic::unseen(&window));
        findings.extend(tables::examine(running, &ours, &window)?);
        findings.extend(session::examine(&running.tables)?);
    }
    findings.extend(conflicts::examine());
    Ok(findings)
}

/// The same command for who may look at everything.
fn as_root(pins: &Path, names: &[String]) -> String {
    let names: String = names.iter().map(|name| format!(" {name}")).collect();
    format!("sudo ratelimit doctor{names}{}", of_pins(pins))
}

/// What a command needs to find this instance.
fn of_pins(pins: &Path) -> String {
    if pins == Path::new(PINS) { String::new() } else { format!(" --pins {}", pins.display()) }
}

/// The interfaces to look at. What cannot be looked at is a finding.
fn choose(all: &[Interface], names: &[String], ours: &Ours, findings: &mut Vec<Finding>) -> Vec<Interface> {
    if names.is_empty() {
        let chosen: Vec<_> = all.iter().filter(|interface| ours.has(interface)).cloned().collect();
        if chosen.is_empty() {
            let why = "None was named, and none here is seen to be attached. What hurts depends on the interface most of all.";
            findings
                .push(Finding::note(Check::Interface, "none was looked at", why).mended_by("ratelimit doctor IFACE"));
        }
        return chosen;
    }
    let mut chosen: Vec<Interface> = Vec::new();
    for name in names {
        let found = all.iter().find(|interface| interface.name == *name);
        match found {
            Some(interface) if chosen.iter().all(|other| other.index != interface.index) => {
                chosen.push(interface.clone());
            }
            Some(_) => {}
            None => {
                let known = all.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
                let what = format!("there is none of this name: this network namespace has {known}");
                let why = "Nothing can be attached to it.";
                findings.push(Finding::error(Check::Interface, &what, why).on(name));
            }
        }
    }
    chosen
}
