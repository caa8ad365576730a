//! Failures of the data plane. Every message says what to do next. It is the lowest room: it imports no other, and how
//! a failure is found does not belong here.

mod context;
mod lists;
mod namespace;
mod overruled;
mod pins;
mod services;
mod unknown;

use std::{io, path::PathBuf};

use ratelimit_common::limits::limit_error::LimitError;

pub use self::{
    context::{Tried, at},
    lists::ListError,
    namespace::NamespaceError,
    overruled::Overruled,
    pins::PinsError,
    services::ServicesError,
    unknown::UnknownError,
};

/// Folder of the pins if the operator names no other.
pub(crate) const PINS: &str = "/sys/fs/bpf/ratelimit";

/// A failure of the data plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel lacks a feature.
    #[error("kernel {found} is too old: ratelimit needs compare-and-exchange in BPF programs, as in Linux 5.15")]
    Kernel {
        /// The running release.
        found: String,
    },
    /// A capability is missing.
    #[error("missing privilege {0}: run as root, or give the process CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON")]
    Privilege(&'static str),
    /// The folder of the pins cannot be used.
    #[error(transparent)]
    Pins(#[from] PinsError),
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// Another process has the lock of the instance.
    #[error(
        "{} is locked by {holder}, {}for {seconds} seconds: wait until it ends, or end it, then try again",
        .path.display(),
        without_progress(.is_stuck)
    )]
    Locked {
        /// The folder of the pins.
        path: PathBuf,
        /// How long this process has waited, in seconds.
        seconds: u64,
        /// Whether nothing has happened in this time.
        is_stuck: bool,
        /// The process that has the lock, in words.
        holder: String,
    },
    /// A signal came that ends the process.
    #[error("ended by {0}")]
    Signal(&'static str),
    /// An attach was killed, or the program's pin was removed.
    #[error(
        "the pinned program is missing, as after an attach that was killed: run `ratelimit attach IFACE` again, or `ratelimit detach --all` if that fails"
    )]
    Interrupted,
    /// There is no instance with this folder of pins.
    #[error("ratelimit is not attached in {}: run `ratelimit attach IFACE` first", .0.display())]
    NotAttached(PathBuf),
    /// The pins belong to a build with other map layouts.
    #[error("the instance in {} is of another version ({detail}): run `ratelimit upgrade`, which takes it over with all rules and without a gap", .path.display())]
    OtherAbi {
        /// The folder of the pins.
        path: PathBuf,
        /// What differs.
        detail: String,
    },
    /// Another version has put its program in force since this daemon started.
    #[error(
        "another version of ratelimit is in force, and this daemon changes nothing: restart it, as with `systemctl restart ratelimit`, to run the installed version"
    )]
    NotInForce,
    /// The kernel shows types by number only to processes with CAP_SYS_ADMIN.
    #[error("the maps are of another version, and reading them needs CAP_SYS_ADMIN: run `ratelimit upgrade` as root")]
    ForeignTypes,
    /// The pinned maps have other layouts than this version has created.
    #[error("the maps in {} do not have the layout of this version ({detail}): run `ratelimit detach --all`, which removes them with all rules, then attach again", .path.display())]
    Damaged {
        /// The folder of the pins.
        path: PathBuf,
        /// What differs.
        detail: String,
    },
    /// The interface does not exist.
    #[error("no interface {name:?}: this network namespace has {known}")]
    UnknownInterface {
        /// The name that was given.
        name: String,
        /// The existing names.
        known: String,
    },
    /// No program can read the packets of the interface with this name and link type.
    #[error(
        "{0}: ratelimit cannot read packets of this link type ({1}): attach an interface with Ethernet headers, or a tun, WireGuard, PPP, IPIP, SIT, ip6tnl or ip6gre interface, or a GRE tunnel with a fixed remote"
    )]
    LinkType(String, String),
    /// The driver has no native XDP.
    #[error(
        "{name}: {why}: try --mode generic (works everywhere, slower) or --mode auto, or mode = \"auto\" in [interface.{name}] of the file"
    )]
    NoNativeXdp {
        /// The interface.
        name: String,
        /// Why, as far as it is known.
        why: String,
    },
    /// The interface carries another XDP program.
    #[error("{name} already has {program}: {removal}, and `ratelimit attach --replace` puts ratelimit in its place")]
    Taken {
        /// The interface.
        name: String,
        /// The program in words.
        program: String,
        /// What removes it, in words.
        removal: String,
    },
    /// An interface above has a program, so the kernel refuses one on this interface.
    #[error(
        "{name}: {upper} above it has {program}, and the kernel then refuses every program below, in each mode: {removal}; attach {name} first, and {upper} after it"
    )]
    Above {
        /// The interface.
        name: String,
        /// The interface above it.
        upper: String,
        /// The program of that one in words.
        program: String,
        /// What removes it, in words.
        removal: String,
    },
    /// The same packets pass another interface of the instance.
    #[error("{both}: packets through both would be charged twice: {advice}")]
    Twice {
        /// Both interfaces, in words.
        both: String,
        /// What to do.
        advice: String,
    },
    /// Another program was attached to this interface between the check and the attach.
    #[error("{0} has another XDP program by now: try again to see which")]
    TakenMeanwhile(String),
    /// Our program runs in another mode than requested.
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
    #[error("{name}: the kernel refused to attach: {cause}{advice}")]
    Attach {
        /// The interface.
        name: String,
        /// What the kernel said.
        cause: String,
        /// What to do. Empty if nothing helps.
        advice: String,
    },
    /// The interface does not carry our program.
    #[error("ratelimit is not attached to {name}: `ratelimit status` lists where it is")]
    NotAttachedTo {
        /// The interface.
        name: String,
    },
    /// An interface of this name carries the program in another network namespace only.
    #[error(
        "{name} is attached in another network namespace: run `ratelimit --netns NAME detach {name}`, or `ratelimit detach --all`"
    )]
    Elsewhere {
        /// The interface.
        name: String,
    },
    /// A running instance was created with another setting.
    #[error("the running instance has {running}, not {requested}: `ratelimit detach --all` first, then attach again")]
    Setting {
        /// Its setting.
        running: String,
        /// The requested setting.
        requested: String,
    },
    /// A deny would apply to no address, because this host spares all of them.
    #[error("{denied} is {place}, to which no deny is applied: nothing was changed, --force denies it anyway{also}")]
    Spared {
        /// The prefix of the deny.
        denied: String,
        /// What it is to this host, in words.
        place: String,
        /// What else --force would do, in words. Empty if there is nothing.
        also: String,
    },
    /// Unknown sources cannot be limited, or cannot prove their addresses.
    #[error(transparent)]
    Unknown(#[from] UnknownError),
    /// Two interfaces with a capacity need the same place.
    #[error(
        "the interfaces with the indices {index} and {other} cannot both have a capacity, because the indices differ by a multiple of 256: give one of them --capacity off, or delete one interface and create it again"
    )]
    SamePlace {
        /// Index of the interface.
        index: u32,
        /// Index of the other.
        other: u32,
    },
    /// An elastic limit needs an interface with a capacity.
    #[error(
        "no interface has a capacity, which --throttle elastic goes by: `ratelimit attach IFACE --capacity RATE` first"
    )]
    NoCapacity,
    /// Another daemon has the lock of the instance.
    #[error("another daemon keeps a file in force in {}: end {holder} first, limits stay in force meanwhile", .path.display())]
    SecondDaemon {
        /// The folder of the pins.
        path: PathBuf,
        /// That daemon, in words.
        holder: String,
    },
    /// An impossible limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Rules use the policies in all slots.
    #[error("{0} different limits are in use, the maximum: reuse one of them, or delete rules")]
    TooManyPolicies(u32),
    /// A list that cannot be set.
    #[error(transparent)]
    Lists(#[from] ListError),
    /// Services that cannot have rules at the same time.
    #[error(transparent)]
    Services(#[from] ServicesError),
    /// Too many parents.
    #[error("{family} sources would have more than {most} parents, the maximum: omit one --parent")]
    TooManyParents {
        /// The family.
        family: &'static str,
        /// The most.
        most: usize,
    },
    /// A parent that is no wider than a source.
    #[error(
        "--parent /{bits} is no wider than a source, which has {whole} bits (in a default, up to 32 bits mean IPv4: for all of IPv6, set the limit of ::/0)"
    )]
    NarrowParent {
        /// Bits of the parent.
        bits: u8,
        /// Bits of a source.
        whole: u8,
    },
    /// Two parents with the same scope.
    #[error("two parents have the same scope: give both rates in one, as in --parent all=500k/s,1GB/s")]
    SameParent,
    /// A change would block an SSH session.
    #[error("{session}, which would be {fate}: {way_out}")]
    ShutOut {
        /// The session and its address.
        session: String,
        /// Its new limit.
        fate: String,
        /// The option that overrides this.
        way_out: String,
    },
    /// A change would overrule rules *allow* of an operator: each rule that does so.
    #[error("{}: nothing was changed, --force does it anyway", Overruled::in_words(.0))]
    Allowed(Vec<Overruled>),
    /// An attach failed, and the program that was to be replaced could not return.
    #[error("{cause}; the other program is off, too ({left}): the next command tries to attach it again")]
    NotRestored {
        /// The first failure.
        cause: Box<Error>,
        /// Why the other program is off.
        left: Box<Error>,
    },
    /// Some pins were not moved into place. The next command does so.
    #[error("the change is in force, but its pins are not in place yet ({cause}): the next command completes it")]
    Unfinished {
        /// The failure.
        cause: Box<Error>,
    },
    /// Rules or costs are written, but the program may not see all of them yet. The next command makes it see them.
    #[error("the change is written, but not all of it acts yet ({cause}): the next command completes this")]
    Written {
        /// The failure.
        cause: Box<Error>,
    },
    /// Nothing is attached any more, but pins are left.
    #[error("detached, but not all pins are removed ({cause}): run `ratelimit detach --all` again")]
    NotRemoved {
        /// The failure.
        cause: Box<Error>,
    },
    /// Existing rules deny an SSH session.
    #[error(
        "an SSH session comes from {peer}, which the rules that were kept deny: `ratelimit deny list` shows them, `{option}` attaches all the same"
    )]
    SessionDenied {
        /// Its address.
        peer: String,
        /// The option that overrides this.
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
    /// The map of comments is full.
    #[error(
        "{0} rules have a comment, the maximum: nothing was changed, omit --comment, or delete rules with a comment first"
    )]
    TooManyComments(u32),
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
    /// Another BPF operation failed.
    #[error("{what}: {detail}")]
    Bpf {
        /// The attempted operation.
        what: &'static str,
        /// The whole chain of causes.
        detail: String,
    },
}

impl Error {
    /// Returns that the driver refuses native XDP: because it has none, or for this reason, with the command that ends it.
    pub(crate) fn no_native_xdp(name: String, refusal: Option<(String, Option<String>)>) -> Self {
        let why = match refusal {
            Some((why, Some(fix))) => format!("{why} (`{fix}` ends that)"),
            Some((why, None)) => why,
            None => "its driver does not support native XDP".to_owned(),
        };
        Self::NoNativeXdp { name, why }
    }
}

/// Returns the words of [`Error::Locked`] about a holder that does nothing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "thiserror passes fields by reference")]
fn without_progress(is_stuck: &bool) -> &'static str {
    if *is_stuck { "without progress " } else { "" }
}
