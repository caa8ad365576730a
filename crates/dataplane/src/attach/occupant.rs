//! The program of another tool on an interface, in words: what it is, and what removes it. Each step of the search may
//! fail, because a command may not see what other users and containers hold. Then the words say less.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use ratelimit_base::text::excerpt::escaped;
use ratelimit_common::maps::names;

use crate::{
    Error,
    attach::loaded,
    pins::{layout, mounts},
    sys::{
        bpf::pinned_object::PinnedObject,
        interface::{Attached, Interface, Program},
        lock_holder::Holder,
    },
};

/// Where libxdp pins the programs behind its dispatchers: a folder for each.
const DISPATCHERS: &str = "/sys/fs/bpf/xdp";

/// With this, the names of ratelimit's programs begin.
const PROGRAM: &str = "ratelimit";

/// Name of libxdp's dispatcher.
const DISPATCHER: &str = "xdp_dispatcher";

/// The most folders and pins that a search visits, and how deep it goes.
const MOST: usize = 4_096;
const DEEPEST: usize = 6;

/// The program of another tool.
#[derive(Debug)]
pub struct Occupant {
    interface: String,
    id: u32,
    mode: Attached,
    name: String,
    /// The programs that a dispatcher of libxdp runs, by name and id. None for any other program.
    members: Option<Vec<(String, u32)>>,
    holder: LinkHolder,
    /// Where the program itself is pinned.
    pin: Option<PathBuf>,
}

/// What keeps a program on an interface.
#[derive(Debug)]
enum LinkHolder {
    /// The interface alone.
    Nothing,
    /// The pin of a link.
    Pin(PathBuf),
    /// A process with a link.
    Process(Holder),
    /// Nothing visible, and something is mounted over this folder, which may have had a pin.
    Covered(PathBuf),
    /// The pins of another instance of ratelimit.
    Instance(PathBuf),
    /// This process may not see links.
    Unknown,
}

impl Occupant {
    /// Looks at the program on an interface.
    pub fn of(interface: &Interface, Program { id, mode }: Program) -> Self {
        let folder = Path::new(DISPATCHERS).join(format!("dispatch-{}-{id}", interface.index));
        let name = loaded::program_name(id);
        let members = (name == DISPATCHER || folder.is_dir()).then(|| members(&folder));
        let links = loaded::links_of(id, interface.index).ok();
        let links: Option<Vec<u32>> = links.map(|links| links.iter().map(|link| link.id).collect());
        let pins = Pins::find(mounts::of_bpf(), id, links.as_deref());
        let holder = match (pins.instance, pins.link, links.as_deref()) {
            (Some(instance), ..) => LinkHolder::Instance(instance),
            (None, Some(pin), _) => LinkHolder::Pin(pin),
            (None, None, Some([link, ..])) => match (Holder::of_link(*link), mounts::covered()) {
                (Holder::Hidden, Some(folder)) => LinkHolder::Covered(folder),
                (holder, _) => LinkHolder::Process(holder),
            },
            (None, None, Some([])) => LinkHolder::Nothing,
            (None, None, None) => LinkHolder::Unknown,
        };
        Self { interface: interface.name.clone(), id, mode, name, members, holder, pin: pins.program }
    }

    /// Returns whether this process may not see whose program it is.
    pub fn is_unknown(&self) -> bool {
        matches!(self.holder, LinkHolder::Unknown)
    }

    /// Returns whether it is a program of ratelimit, and what holds it cannot be seen because of a mount.
    pub fn is_covered_instance(&self) -> bool {
        self.name.starts_with(PROGRAM) && matches!(self.holder, LinkHolder::Covered(_))
    }

    /// Returns the error of an attach that finds it.
    pub fn taken(&self) -> Error {
        Error::Taken { name: self.interface.clone(), program: self.to_string(), removal: self.removal() }
    }

    /// Returns the advice that removes it.
    pub fn removal(&self) -> String {
        let Self { interface, .. } = self;
        match (&self.members, &self.holder) {
            (Some(_), _) => format!("`xdp-loader unload {interface} --all` removes it with all its programs"),
            (None, LinkHolder::Instance(pins)) => {
                format!("`ratelimit --pins {} detach {interface}` removes it", escaped(&pins.display().to_string()))
            }
            (None, LinkHolder::Pin(pin)) => format!("`rm {}` removes it", escaped(&pin.display().to_string())),
            (None, LinkHolder::Process(holder)) => format!("{holder} holds it until it ends"),
            (None, LinkHolder::Covered(folder)) => {
                let (shown, uncover) = (folder.display(), mounts::uncover(folder));
                format!(
                    "a process that is not visible here holds it, or its pin is hidden below what is mounted over {shown}; {uncover}"
                )
            }
            (None, LinkHolder::Unknown) => "the tool that has attached it removes it".to_owned(),
            (None, LinkHolder::Nothing) => {
                let mode = match self.mode {
                    Attached::Native => "xdpdrv",
                    Attached::Generic => "xdpgeneric",
                    Attached::Offloaded => "xdpoffload",
                };
                format!("`ip link set dev {interface} {mode} off` removes it")
            }
        }
    }
}

impl fmt::Display for Occupant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, id, mode, .. } = self;
        let of_instance = if let LinkHolder::Instance(_) = self.holder { " of another instance" } else { "" };
        let Some(members) = &self.members else {
            write!(out, "the XDP program {name:?}{of_instance} (id {id}, {})", mode.name())?;
            return match &self.pin {
                Some(pin) if of_instance.is_empty() => {
                    write!(out, ", pinned at {}", escaped(&pin.display().to_string()))
                }
                _ => Ok(()),
            };
        };
        write!(out, "the dispatcher of libxdp (id {id}, {}), which runs ", mode.name())?;
        match &members[..] {
            [] => write!(out, "programs that cannot be seen here"),
            members => {
                let each: Vec<String> = members.iter().map(|(name, id)| format!("{name:?} (id {id})")).collect();
                write!(out, "{}", each.join(", "))
            }
        }
    }
}

/// Returns the programs behind a dispatcher.
fn members(folder: &Path) -> Vec<(String, u32)> {
    let mut pins = layout::entries(folder).unwrap_or_default();
    pins.sort();
    let program = |pin: &PathBuf| match PinnedObject::at(pin) {
        Ok(PinnedObject::Program { id, .. }) => Some((loaded::program_name(id), id)),
        _ => None,
    };
    pins.iter().take(MOST).filter_map(program).collect()
}

/// The pins of a program.
#[derive(Debug, Default)]
struct Pins {
    /// One of its links.
    link: Option<PathBuf>,
    /// The program itself.
    program: Option<PathBuf>,
    /// The folder of the instance of ratelimit with one of these.
    instance: Option<PathBuf>,
}

impl Pins {
    /// Looks for the pins of a program, and of its links as far as they are known.
    fn find(roots: Vec<PathBuf>, program: u32, links: Option<&[u32]>) -> Self {
        let (mut found, mut visited) = (Self::default(), 0);
        let mut folders: Vec<(PathBuf, usize)> = roots.into_iter().map(|root| (root, 0)).collect();
        while let Some((folder, depth)) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                visited += 1;
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                if visited > MOST {
                    return found;
                }
                if kind.is_dir() && depth < DEEPEST {
                    folders.push((path, depth + 1));
                } else if kind.is_file() {
                    found.add(path, program, links);
                }
            }
        }
        found
    }

    fn add(&mut self, path: PathBuf, program: u32, links: Option<&[u32]>) {
        // An instance has its programs in its folder, and its links in one below.
        let instance = |levels| path.ancestors().nth(levels).filter(|folder| folder.join(names::CONTROL).exists());
        let is_link = |id, of| of == program && links.is_none_or(|links| links.contains(&id));
        let (levels, place) = match PinnedObject::at(&path) {
            Ok(PinnedObject::Link { id, program }) if is_link(id, program) => (2, &mut self.link),
            Ok(PinnedObject::Program { id, .. }) if id == program => (1, &mut self.program),
            _ => return,
        };
        self.instance = self.instance.take().or_else(|| instance(levels).map(Path::to_owned));
        *place = Some(path);
    }
}
