//! `ratelimit doctor`: finds problems of host, interfaces, traffic and tables. Nothing here changes anything.
//!
//! Each file has one group of checks: it reads the state with `dataplane`, and plain functions turn that into findings.
//! The command line prints them. The instance is locked only while it is opened, so that no other command waits for the
//! second of observation.

mod cells;
mod connections;
mod facts;
pub mod finding;
mod firewall;
mod fleet;
mod host;
mod instance;
mod interface;
mod layers;
mod link_type;
mod native_mode;
mod own_network;
mod peers;
mod session;
mod tables;
mod traffic;

use std::path::Path;

use jiff::Timestamp;
use ratelimit_dataplane::{
    Error,
    rules::capacities,
    sys::{
        host as privileges,
        interface::{self as interfaces, Interface},
    },
};

use self::{
    finding::{Check, Finding},
    instance::{Ours, Running, State},
    traffic::Window,
};

/// Examines the host and these interfaces. Without names, it examines all interfaces that the instance in `pins` is
/// attached to.
///
/// # Errors
///
/// Fails with [`Error`] if the kernel does not answer.
pub fn examine(pins: &Path, names: &[String]) -> Result<Vec<Finding>, Error> {
    let missing = privileges::missing_privileges()?;
    let as_root = as_root(names);
    // Without privileges, the instance cannot be opened.
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
        let capacity = running.map(|running| capacities::of(&running.tables, interface.index)).transpose()?;
        let capacity = capacity.flatten().unwrap_or(0);
        findings.extend(interface::examine(&all, interface, &ours, capacity, &as_root)?);
        findings.extend(link_type::examine(interface, &ours).map(|finding| finding.on(&interface.name)));
        findings.extend(traffic::losses(interface, &window)?);
    }
    if let Some(running) = running {
        findings.extend(traffic::unseen(&window));
        findings.extend(tables::examine(running, &window)?);
        let control = running.tables.control()?;
        findings.push(connections::examine(&control));
        findings.push(connections::examine_proofs(&control));
        findings.extend(own_network::examine(&running.tables, &ours.attachments)?);
        findings.extend(connections::examine_answers(&control, &all, &ours));
        findings.extend(session::examine(&running.tables)?);
    }
    if let Some(status) = fleet::status(pins) {
        findings.extend(fleet::examine(&status, Timestamp::now()));
        if let (Some(running), Some(places)) = (running, &status.gossip) {
            findings.extend(peers::examine(&running.tables, &ours, places)?);
        }
    }
    findings.extend(firewall::examine());
    Ok(findings)
}

/// Returns this command for a user who may read everything.
fn as_root(names: &[String]) -> String {
    let names: String = names.iter().map(|name| format!(" {name}")).collect();
    format!("sudo ratelimit doctor{names}")
}

/// Returns the interfaces to examine. A name without an interface becomes a finding.
fn choose(all: &[Interface], names: &[String], ours: &Ours, findings: &mut Vec<Finding>) -> Vec<Interface> {
    if names.is_empty() {
        let chosen: Vec<_> = all.iter().filter(|interface| ours.has(interface)).cloned().collect();
        if chosen.is_empty() {
            let why = "No interface was named, and none here is attached. Most problems depend on the interface.";
            findings.push(
                Finding::note(Check::Interface, "no interface was examined", why).fixed_by("ratelimit doctor IFACE"),
            );
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
                let what = format!("no such interface: this network namespace has {known}");
                let why = "`ratelimit attach` would fail.";
                findings.push(Finding::error(Check::Interface, &what, why).on(name));
            }
        }
    }
    chosen
}
