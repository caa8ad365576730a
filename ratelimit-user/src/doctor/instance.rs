//! The running instance, if there is one, and what is beside it.

use std::path::Path;

use ratelimit_common::rules::rule::CONFIG;

use super::{Check, Finding, of_pins};
use crate::{
    controller::daemon::socket,
    dataplane::{
        Error, Instance,
        attach::attachment::Attachment,
        error::Tried as _,
        instance::{
            open::{self, PINS},
            read_only::View,
        },
        pins::bpffs,
        rules::list,
        sys::interface::Interface,
        tables::open::Tables,
    },
};

/// What there is to look at. Its lock has been given up: commands need not wait until all is measured.
pub(super) struct Running {
    pub(super) tables: Tables,
    is_jitted: bool,
}

/// What is known of it.
pub(super) enum State {
    Running(Box<Running>),
    /// There is none.
    Absent,
    /// This process cannot use it, or may not look.
    Closed,
}

impl State {
    pub(super) fn running(&self) -> Option<&Running> {
        if let Self::Running(running) = self { Some(running) } else { None }
    }
}

/// Where its program is, whichever version has attached it.
#[derive(Default)]
pub(super) struct Ours {
    pub(super) attachments: Vec<Attachment>,
    /// Whether this user may see that at all.
    pub(super) are_known: bool,
}

impl Running {
    fn open(pins: &Path) -> Result<Self, Error> {
        let instance = Instance::open(pins)?;
        let info = instance.program()?.info().tried("cannot read the pinned program")?;
        let Instance { tables, .. } = instance;
        Ok(Self { tables, is_jitted: info.size_jitted() != 0 })
    }

    /// Whether its program is compiled.
    pub(super) fn is_jitted(&self) -> bool {
        self.is_jitted
    }
}

impl Ours {
    /// Looks at the links, which need no maps. What is wrong with them is told of the instance.
    pub(super) fn read(pins: &Path) -> Self {
        View::attachments_in(pins).map_or_else(|_| Self::default(), |attachments| Self { attachments, are_known: true })
    }

    /// Whether it is attached to this interface.
    pub(super) fn has(&self, interface: &Interface) -> bool {
        self.attachments.iter().any(|attachment| {
            attachment.mode.is_some() && attachment.index == Some(interface.index) && attachment.name == interface.name
        })
    }
}

/// Opens the instance, if there is one.
pub(super) fn open(pins: &Path) -> (State, Vec<Finding>) {
    match Running::open(pins) {
        Ok(running) => {
            (State::Running(Box::new(running)), vec![Finding::ok(Check::Instance, &pins.display().to_string())])
        }
        Err(Error::NotAttached | Error::NoBpffs { .. }) => {
            (State::Absent, vec![Finding::ok(Check::Instance, "none, ratelimit is not attached")])
        }
        Err(error) => (State::Closed, vec![unusable(&error)]),
    }
}

/// An instance that commands cannot use as it is. Only what no command can mend is to be removed.
fn unusable(error: &Error) -> Finding {
    let finding = |why| Finding::error(Check::Instance, &error.to_string(), why);
    match error {
        Error::OtherAbi { .. } => {
            finding("Commands of this version cannot use it until then. What is attached limits as it did.")
                .mended_by("ratelimit upgrade")
        }
        Error::Damaged { .. } | Error::Interrupted => {
            finding("No command but `detach --all` can use it. What is attached goes on as it is.")
                .mended_by("ratelimit detach --all")
        }
        _ => finding("No command can use it like this. What is attached goes on as it is."),
    }
}

/// `all` are the interfaces of this network namespace.
pub(super) fn examine(pins: &Path, state: &State, ours: &Ours, all: &[Interface]) -> Vec<Finding> {
    let mut findings = vec![bpffs(pins), daemon(pins, state)];
    let others = open::others(pins);
    if !others.is_empty() {
        let names: Vec<_> = others.iter().map(|path| path.display().to_string()).collect();
        let why = "Each has limits of its own: a source may send what all of them let pass together.";
        let what = format!("there are others: {}", names.join(", "));
        findings.push(Finding::note(Check::OtherInstances, &what, why));
    }
    let gone = ours.attachments.iter().filter(|attachment| attachment.is_gone);
    findings.extend(gone.map(|gone| lost(&gone.name, all.iter().any(|interface| interface.name == gone.name))));
    findings
}

/// A link without its interface.
fn lost(name: &str, is_back: bool) -> Finding {
    if is_back {
        let why = "The interface was made anew, or somebody replaced the program: nothing is limited there.";
        return Finding::error(Check::Instance, "ratelimit has lost it", why)
            .on(name)
            .mended_by(format!("ratelimit attach {name}"));
    }
    let why = "The interface was deleted. If it comes back, nothing is limited there until the next attach.";
    Finding::warning(Check::Instance, "ratelimit has lost it", why)
        .on(name)
        .mended_by(format!("ratelimit detach {name}"))
}

fn bpffs(pins: &Path) -> Finding {
    let folder = pins.parent().unwrap_or(pins).display();
    if bpffs::can_pin(pins) {
        return Finding::ok(Check::Bpffs, &format!("mounted at {folder}"));
    }
    let what = format!("no BPF file system is mounted at {folder}");
    let Some(mount) = bpffs::mount_point(pins) else {
        let why = "Programs and rules can be kept nowhere else, and one that is mounted there hides what is there.";
        return Finding::error(Check::Bpffs, &what, why).mended_by(format!("ratelimit attach IFACE --pins {PINS}"));
    };
    let mount = format!("mount -t bpf bpf {}", mount.display());
    if pins == Path::new(PINS) {
        return Finding::note(Check::Bpffs, &what, "`ratelimit attach` mounts it.").mended_by(mount);
    }
    Finding::error(Check::Bpffs, &what, "Programs and rules can be kept nowhere else.").mended_by(mount)
}

fn daemon(pins: &Path, state: &State) -> Finding {
    if socket::is_listening(pins) {
        if matches!(state, State::Absent) {
            let what = "runs, but nothing is attached: its file is not in force";
            return Finding::warning(Check::Daemon, what, "Nothing is limited until it reads the file again.")
                .mended_by(format!("ratelimit reload{}", of_pins(pins)));
        }
        return Finding::ok(Check::Daemon, "runs");
    }
    let of_file = |running: &Running| {
        list::list(&running.tables).is_ok_and(|rules| rules.iter().any(|rule| rule.origin == CONFIG))
    };
    if state.running().is_some_and(of_file) {
        let why = "The rules that a file has set stay in force, and changes of the file do nothing.";
        return Finding::note(Check::Daemon, "none follows the configuration file", why)
            .mended_by("ratelimit run -c FILE");
    }
    Finding::ok(Check::Daemon, "none runs, and packets need none")
}
