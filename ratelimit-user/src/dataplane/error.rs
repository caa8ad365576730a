//! What can go wrong below the commands. Every message says what to do next.

use std::{io, path::PathBuf};

use ratelimit_common::limits::limit::LimitError;

/// A failure of the data plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel is older than the floor.
    #[error("kernel {found} is too old: ratelimit needs Linux 5.15 or newer")]
    Kernel {
        /// The running release.
        found: String,
    },
    /// A capability is missing.
    #[error("missing privilege {0}: run as root, or give the process CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON")]
    Privilege(&'static str),
    /// No BPF file system where the pins should be.
    #[error("{} is not on a BPF file system, where programs and maps are kept: {advice}", .path.display())]
    NoBpffs {
        /// The folder of the pins.
        path: PathBuf,
        /// What to do.
        advice: String,
    },
    /// A folder that pins cannot be kept in, whatever is mounted where.
    #[error("--pins {}: give a folder right below a BPF file system by its full path, such as /sys/fs/bpf/ratelimit", .0.display())]
    PinsFolder(PathBuf),
    /// The pins are another user's.
    #[error("{}: permission denied: the pins are root's alone, so run as root", .0.display())]
    NotOwner(PathBuf),
    /// An attach was killed before it was done, or somebody removed the program's pin.
    #[error(
        "the pinned program is missing, as after an attach that was killed: run `ratelimit attach IFACE` again, or `ratelimit detach --all` if that fails"
    )]
    Interrupted,
    /// Nothing is attached, so there is nothing to change or show.
    #[error("ratelimit is not attached: run `ratelimit attach IFACE` first")]
    NotAttached,
    /// The pins belong to a build with other map layouts.
    #[error("the maps in {} were made by another version ({detail}): `ratelimit upgrade` brings them to this one, with all rules and without a gap", .path.display())]
    OtherAbi {
        /// The folder of the pins.
        path: PathBuf,
        /// What differs.
        detail: String,
    },
    /// The kernel shows types by their number only to who may do everything.
    #[error(
        "the maps were made by another version, and reading what is in them needs CAP_SYS_ADMIN: run `ratelimit upgrade` as root"
    )]
    ForeignTypes,
    /// The pins are not those that this version has made.
    #[error("the maps in {} are not as this version has made them ({detail}): `ratelimit detach --all` removes them with all rules, then attach again", .path.display())]
    Damaged {
        /// The folder of the pins.
        path: PathBuf,
        /// What differs.
        detail: String,
    },
    /// No such interface.
    #[error("no interface {name:?}: this network namespace has {known}")]
    UnknownInterface {
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The driver has no native XDP.
    #[error(
        "{name}: its driver does not support native XDP: try --mode generic (works everywhere, slower) or --mode auto"
    )]
    NoNativeXdp {
        /// The interface.
        name: String,
    },
    /// Another XDP program is there.
    #[error("{name} already has the XDP program {program:?} (id {id}): remove that one, or insist with --replace")]
    Taken {
        /// The interface.
        name: String,
        /// Name of the program.
        program: String,
        /// Id of the program.
        id: u32,
    },
    /// Another program came between looking and attaching.
    #[error("{name} was given another XDP program meanwhile: try again to see which")]
    TakenMeanwhile {
        /// The interface.
        name: String,
    },
    /// Our program is there in another mode than asked for.
    #[error(
        "{name} has ratelimit in {running} mode: `ratelimit detach {name}` first to change that; the rules are kept"
    )]
    OtherMode {
        /// The interface.
        name: String,
        /// The running mode.
        running: &'static str,
    },
    /// The kernel refused the program on this interface.
    #[error("{name}: the kernel refused to attach: {cause}")]
    Attach {
        /// The interface.
        name: String,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Frames of the interface's MTU need several buffers, and the kernel or the driver has none for XDP.
    #[error(
        "{name}: its MTU of {mtu} is too large for native XDP {place}: `ip link set {name} mtu 1500`, or --mode generic ({cause})"
    )]
    Mtu {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: u32,
        /// Whether that is so in the kernel or in the driver.
        place: &'static str,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The interface does not carry our program.
    #[error("ratelimit is not attached to {name}: `ratelimit status` lists where it is")]
    NotAttachedTo {
        /// The interface.
        name: String,
    },
    /// A running instance was made with another setting.
    #[error("the running instance has {running}, not {wanted}: `ratelimit detach --all` first, then attach again")]
    Setting {
        /// What it has.
        running: String,
        /// What was asked for.
        wanted: String,
    },
    /// Unknown sources are told by what cells remember.
    #[error(
        "the running instance has no cells, which --unknown needs: `ratelimit detach --all` first, then attach without --front off"
    )]
    NoCells,
    /// Two interfaces with a capacity fall on one place.
    #[error(
        "interface {index} cannot have a capacity beside interface {other}: their indices differ by a multiple of 256. Take the other one's with --capacity off, or delete and make one of both interfaces again"
    )]
    SamePlace {
        /// Index of the interface.
        index: u32,
        /// Index of the other.
        other: u32,
    },
    /// Nothing tells an elastic limit whether there is room.
    #[error(
        "no interface has a capacity, which --throttle elastic goes by: `ratelimit attach IFACE --capacity RATE` first"
    )]
    NoCapacity,
    /// Another daemon has the claim on the instance.
    #[error(
        "another daemon keeps a file in force in {}, perhaps one in a container: end that one first, limits stay in force meanwhile",
        .0.display()
    )]
    SecondDaemon(PathBuf),
    /// A limit that cannot be.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// All slots hold policies that rules use.
    #[error("{0} different limits are in use, which is the most: use one of them again, or delete rules")]
    TooManyPolicies(u32),
    /// All classes belong to services that rules are about.
    #[error("rules are about {0} services already, which is the most: delete those of one first")]
    TooManyServices(usize),
    /// More wider limits than a packet asks.
    #[error("{family} sources would have more than {most} parents, which is the most: leave one --parent away")]
    TooManyParents {
        /// The family.
        family: &'static str,
        /// The most.
        most: usize,
    },
    /// A wider limit that is not wider.
    #[error(
        "--parent /{bits} is no wider than a source, which has {whole} bits (in a default, up to 32 bits mean IPv4: for all of IPv6, set the limit of ::/0)"
    )]
    NarrowParent {
        /// Bits of the parent.
        bits: u8,
        /// Bits of a source.
        whole: u8,
    },
    /// A ban of sources that the filter of rules cannot tell.
    #[error("--ban needs IPv6 sources of 32 bits or more, and this instance has /{0} (attach --ipv6-prefix)")]
    WideBan(u8),
    /// Two wider limits with one scope.
    #[error("two parents have the same scope: give both rates in one, as in --parent all=500k/s,1GB/s")]
    SameParent,
    /// An SSH session would suffer.
    #[error("{session}, which would be {fate}: {way_out}")]
    ShutOut {
        /// Whose it is, and where it comes from.
        session: String,
        /// What would become of it.
        fate: String,
        /// What does it all the same.
        way_out: String,
    },
    /// Pins were not all put in place, which the next command does.
    #[error("what was asked for is in force, but not in its place ({cause}): the next command puts it there")]
    Unfinished {
        /// What stood in the way.
        cause: Box<Error>,
    },
    /// Rules that were kept shut out an SSH session.
    #[error(
        "an SSH session comes from {peer}, which the rules that were kept deny: `ratelimit deny list` shows them, `{option}` attaches all the same"
    )]
    SessionDenied {
        /// Where it comes from.
        peer: String,
        /// The option that goes on.
        option: &'static str,
    },
    /// A rule map is full.
    #[error("the table of {kind} rules is full ({most}): delete some first")]
    TooManyRules {
        /// Sources or prefixes.
        kind: &'static str,
        /// Its size.
        most: u32,
    },
    /// A file operation failed.
    #[error("{}: {cause}", .path.display())]
    Path {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Netlink failed.
    #[error("the kernel's interface service (rtnetlink): {0}")]
    Netlink(String),
    /// A BPF operation failed in a way that is none of the above.
    #[error("{what}: {detail}")]
    Bpf {
        /// What was tried.
        what: &'static str,
        /// The whole chain of causes.
        detail: String,
    },
}

impl Error {
    /// Wraps an error of aya with all that caused it.
    pub(crate) fn bpf(what: &'static str) -> impl Fn(&(dyn std::error::Error + 'static)) -> Self {
        move |error| {
            let mut detail = error.to_string();
            let mut cause = error.source();
            while let Some(inner) = cause {
                let text = inner.to_string();
                if !detail.contains(&text) {
                    detail += ": ";
                    detail += &text;
                }
                cause = inner.source();
            }
            Error::Bpf { what, detail: brief(&detail) }
        }
    }
}

/// One line of a message: of the verifier's hundreds, the one before its statistics, which says what it objects to.
fn brief(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let objection = lines.take_while(|line| !line.starts_with("verification time")).last();
    objection.map_or_else(|| first.to_owned(), |objection| format!("{first} … {objection}"))
}

/// Adds what was tried to an error of aya.
pub(crate) trait Tried<T> {
    /// The same result with `what` in its error.
    fn tried(self, what: &'static str) -> Result<T, Error>;
}

impl<T, E: std::error::Error + 'static> Tried<T> for Result<T, E> {
    fn tried(self, what: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::bpf(what)(&error))
    }
}

/// Adds the file to an error of the system.
pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
    |cause| Error::Path { path: path.into(), cause }
}
