//! Checks of the running instance, its daemon, and other instances.

use std::path::Path;

use ratelimit_common::rules::rule::CONFIG;
use ratelimit_daemon::{
    controller::{
        change::stacked::{self, LeftOff},
        socket::{client, request::Unattached},
    },
    crowdsec,
};
use ratelimit_dataplane::{
    Error, Instance,
    attach::attachment::Attachment,
    error::{PinsError, Tried as _},
    instance::{open, read_only::View},
    lists::listing,
    pins::{bpffs, layout::PINS},
    rules::list,
    sys::interface::Interface,
    tables::open::Tables,
};
use ratelimit_protocol::stops;

use super::finding::{Check, Finding};

/// When the daemon asks the server of a list again after a failure.
const AGAIN: &str = "after at most an hour, or after `every` of the list if that is shorter";

/// The opened instance. Its lock is released, so that commands need not wait for the measurement.
pub(super) struct Running {
    pub(super) tables: Tables,
    is_jitted: bool,
}

/// The state of the instance.
pub(super) enum State {
    Running(Box<Running>),
    /// There is no instance.
    Absent,
    /// This process cannot open it.
    Closed,
}

impl State {
    pub(super) fn running(&self) -> Option<&Running> {
        if let Self::Running(running) = self { Some(running) } else { None }
    }

    /// Returns the names of the lists of the file that are in force.
    fn lists(&self) -> Vec<String> {
        let lists = self.running().map(|running| listing::all(&running.tables).unwrap_or_default());
        let of_file = lists.unwrap_or_default().into_iter().filter(|list| list.origin == CONFIG);
        of_file.map(|list| list.name).collect()
    }
}

/// The interfaces of the instance, whichever version has attached them.
#[derive(Default)]
pub(super) struct Ours {
    pub(super) attachments: Vec<Attachment>,
    /// The program for interfaces without Ethernet headers, if there is one.
    pub(super) raw_programs: Vec<u32>,
    /// Whether this user may read them.
    pub(super) are_known: bool,
}

impl Running {
    fn open(pins: &Path) -> Result<Self, Error> {
        let instance = Instance::open(pins)?;
        let info = instance.programs()?.ethernet().info().tried("cannot read the pinned program")?;
        let tables = instance.into_tables()?;
        Ok(Self { tables, is_jitted: info.size_jitted() != 0 })
    }

    /// Returns whether its program is compiled.
    pub(super) fn is_jitted(&self) -> bool {
        self.is_jitted
    }
}

impl Ours {
    /// Reads the links, which needs no maps. Problems with them are findings about the instance.
    pub(super) fn read(pins: &Path) -> Self {
        View::attachments_in(pins).map_or_else(
            |_| Self::default(),
            |attachments| Self { attachments, raw_programs: View::raw_programs_in(pins), are_known: true },
        )
    }

    /// Returns whether the instance is attached to this interface.
    pub(super) fn has(&self, interface: &Interface) -> bool {
        self.attachments.iter().any(|attachment| {
            attachment.mode.is_some() && attachment.index == Some(interface.index) && attachment.name == interface.name
        })
    }
}

/// Opens the instance, if there is one, and returns the finding about it.
pub(super) fn open(pins: &Path) -> (State, Vec<Finding>) {
    match Running::open(pins) {
        Ok(running) => {
            (State::Running(Box::new(running)), vec![Finding::ok(Check::Instance, &pins.display().to_string())])
        }
        Err(Error::NotAttached(_) | Error::Pins(PinsError::NoBpffs { .. })) => (
            State::Absent,
            vec![Finding::ok(Check::Instance, &format!("none: ratelimit is not attached in {}", pins.display()))],
        ),
        Err(error) => (State::Closed, vec![unusable(&error)]),
    }
}

/// Returns the finding about an instance that commands cannot use. It recommends removal only if no other command can
/// fix it.
fn unusable(error: &Error) -> Finding {
    let finding = |why| Finding::error(Check::Instance, &error.to_string(), why);
    match error {
        Error::OtherAbi { .. } => {
            finding("Commands of this version cannot use it before an upgrade. Its limits stay in force.")
                .fixed_by("ratelimit upgrade")
        }
        Error::Pins(PinsError::Foreign { .. } | PinsError::Writable(_)) => {
            finding("No command uses it before this is fixed. A program that is attached keeps running.")
        }
        Error::Damaged { .. } | Error::Interrupted => {
            finding("Only `ratelimit detach --all` can use it. The attached program keeps running.")
                .fixed_by("ratelimit detach --all")
        }
        _ => finding("No command can use it. The attached program keeps running."),
    }
}

/// Returns the findings. `all` are the interfaces of this network namespace.
pub(super) fn examine(pins: &Path, state: &State, ours: &Ours, all: &[Interface]) -> Vec<Finding> {
    let mut findings = vec![bpffs(pins), daemon(pins, state)];
    let others = open::others(pins);
    if !others.is_empty() {
        let names: Vec<_> = others.iter().map(|path| path.display().to_string()).collect();
        let why = "Each instance has its own limits, so a source can send as much as all of them admit in total.";
        let what = format!("there are other instances: {}", names.join(", "));
        findings.push(Finding::note(Check::OtherInstances, &what, why));
    }
    let gone = ours.attachments.iter().filter(|attachment| attachment.is_gone);
    findings.extend(gone.map(|gone| {
        let back = all.iter().find(|interface| interface.name == gone.name);
        lost(&gone.name, back, gone.recorded.is_kept() && client::is_listening(pins))
    }));
    let is_absent = matches!(state, State::Absent);
    let is_known = |name: &String| ours.attachments.iter().any(|gone| gone.is_gone && gone.name == *name);
    let lists = state.lists();
    if let Some(mut state) = client::file_state(pins).filter(|_| !is_absent) {
        state.look_up_lists(|name| lists.iter().any(|list| list == name));
        let left_off = stacked::now(pins, &state.interfaces).unwrap_or_default();
        let unattached = state.unattached.iter().filter(|unattached| !is_known(&unattached.interface.name));
        findings.extend(unattached.map(|unattached| {
            let why = left_off.iter().find(|left_off| left_off.name == unattached.interface.name);
            self::unattached(unattached, why, &state.file)
        }));
        findings.extend(state.refused.iter().map(|refused| {
            let what = format!("{} was refused at the last reload: {refused}", state.file);
            Finding::warning(Check::Daemon, &what, "An earlier state of the file is in force.")
                .fixed_by(format!("ratelimit check --host {}", state.file))
        }));
        findings.extend(state.changeable.iter().map(|changeable| {
            let why = "The daemon obeys the file as root. Whoever may change it decides what this host admits.";
            Finding::warning(Check::Daemon, changeable, why)
        }));
        findings.extend(state.unsaved.iter().map(|unsaved| {
            let why = "The daemon tries again after each `interval` of [state].";
            Finding::warning(Check::Daemon, unsaved, why)
        }));
        findings.extend(state.unusable_lists.iter().map(|list| {
            let why = "The daemon reads the file of the list again when that changes.";
            Finding::warning(Check::Daemon, &list.to_string(), why)
        }));
        findings.extend(state.remote_lists.iter().filter_map(|list| {
            let what = format!("list {}: {} is not fetched: {}", list.name, list.url, list.failure.as_ref()?);
            let why = format!("The last success: {}. The daemon tries again {AGAIN}.", list.age());
            Some(Finding::warning(Check::Daemon, &what, &why).fixed_by("ratelimit reload"))
        }));
        findings.extend(state.crowdsec.as_ref().map(crowdsec_finding));
        findings.extend(state.stops.as_ref().map(|stops| stops_finding(stops, &state.file)));
    }
    findings
}

/// Returns the finding about decisions of CrowdSec.
fn crowdsec_finding(crowdsec: &crowdsec::State) -> Finding {
    if crowdsec.problem.is_none() {
        return Finding::ok(Check::Crowdsec, &crowdsec.to_string());
    }
    let stays = match crowdsec.decisions {
        Some(_) => "Decisions in force stay until their ends.",
        None => "The list of an earlier daemon stays for an hour at most.",
    };
    let why = format!("{stays} New decisions, and deletions, wait until that is mended.");
    Finding::warning(Check::Crowdsec, &crowdsec.to_string(), &why)
}

/// Returns the finding about clients that applications stop.
fn stops_finding(stops: &stops::State, file: &str) -> Finding {
    if !stops.is_shadow() {
        return Finding::ok(Check::Stops, &stops.to_string());
    }
    let why = format!("The daemon only logs and counts them. With mode = \"on\" in [stops] of {file}, it limits them.");
    Finding::note(Check::Stops, &stops.to_string(), &why)
}

/// Returns the finding about an interface that the daemon's file lists, and that does not carry the program.
fn unattached(Unattached { interface, exists }: &Unattached, left_off: Option<&LeftOff>, file: &str) -> Finding {
    if let Some(left_off) = left_off {
        let why = "The daemon attaches to it when that ends. Name only one of both in the file.";
        let what = format!("{file} lists it, but it is not attached: {}", left_off.why);
        return Finding::warning(Check::Daemon, &what, why).on(&interface.name);
    }
    if *exists {
        let why = "A command has detached it, or the daemon could not attach to it. Nothing is limited there.";
        return Finding::error(Check::Daemon, &format!("{file} lists it, but it is not attached"), why)
            .on(&interface.name)
            .fixed_by("ratelimit reload");
    }
    let why = "The other interfaces are limited. When it appears, the daemon attaches to it within a second.";
    Finding::warning(Check::Daemon, &format!("{file} lists it, but it does not exist"), why).on(&interface.name)
}

/// Returns the finding about a link without its interface. `has_daemon` tells whether a daemon waits for it.
fn lost(name: &str, back: Option<&Interface>, has_daemon: bool) -> Finding {
    if let Some(interface) = back {
        let replace = if interface.program.is_some() { " --replace" } else { "" };
        let why = "The interface was created again, or its program was replaced. Nothing is limited there.";
        return Finding::error(Check::Instance, "no longer attached", why)
            .on(name)
            .fixed_by(format!("ratelimit attach {name}{replace}"));
    }
    let why = if has_daemon {
        "The interface was deleted. If it comes back, the daemon attaches to it within a second."
    } else {
        "The interface was deleted. If it comes back, nothing is limited there before the next attach."
    };
    let finding = Finding::warning(Check::Instance, "no longer attached", why).on(name);
    // Without its pin, the daemon would not know it again.
    if has_daemon { finding } else { finding.fixed_by(format!("ratelimit detach {name}")) }
}

fn bpffs(pins: &Path) -> Finding {
    let folder = pins.parent().unwrap_or(pins).display();
    if bpffs::can_pin(pins) {
        return Finding::ok(Check::Bpffs, &format!("mounted at {folder}"));
    }
    let what = format!("no BPF file system is mounted at {folder}");
    let Some(mount) = bpffs::mount_point(pins) else {
        let why = "Programs and rules need one, and mounting one there would hide the existing files.";
        return Finding::error(Check::Bpffs, &what, why).fixed_by(format!("ratelimit attach IFACE --pins {PINS}"));
    };
    if let Some(advice) = bpffs::outside() {
        let why = "Programs and rules need one, and one that is mounted here ends with this command.";
        return Finding::error(Check::Bpffs, &what, why).fixed_by(advice);
    }
    let mount = format!("mount -t bpf -o mode=0700 bpf {}", mount.display());
    if pins == Path::new(PINS) {
        return Finding::note(Check::Bpffs, &what, "`ratelimit attach` mounts it.").fixed_by(mount);
    }
    Finding::error(Check::Bpffs, &what, "Programs and rules need one.").fixed_by(mount)
}

fn daemon(pins: &Path, state: &State) -> Finding {
    if client::is_listening(pins) {
        if matches!(state, State::Absent) {
            let what = "runs, but no instance exists: its file is not in force";
            return Finding::warning(Check::Daemon, what, "Nothing is limited until it reads the file again.")
                .fixed_by("ratelimit reload");
        }
        return Finding::ok(Check::Daemon, "runs");
    }
    let of_file = |running: &Running| {
        list::list(&running.tables).is_ok_and(|rules| rules.iter().any(|rule| rule.origin == CONFIG))
    };
    if state.running().is_some_and(of_file) {
        let why = "Rules of a file are in force, but changes of the file have no effect.";
        return Finding::note(Check::Daemon, "none applies the configuration file", why)
            .fixed_by("ratelimit run -c FILE");
    }
    Finding::ok(Check::Daemon, "none runs, and none is needed")
}
