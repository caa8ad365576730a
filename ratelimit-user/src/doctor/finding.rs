//! Findings of checks.

use ratelimit_base::text::pasted;
use serde::Serialize;

/// The subject of a check. The names in output are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The capabilities of this process.
    Privileges,
    /// The kernel's version.
    Kernel,
    /// Whether the kernel compiles BPF programs.
    Jit,
    /// Whether the kernel measures BPF programs.
    BpfStatistics,
    /// The clock source of the kernel.
    ClockSource,
    /// The BPF file system.
    Bpffs,
    /// Whether there is a usable instance.
    Instance,
    /// Other instances on this host.
    OtherInstances,
    /// Whether a daemon runs.
    Daemon,
    /// Whether an interface exists and is attached.
    Interface,
    /// Whether the link is up.
    Link,
    /// Whether a program can read the interface's packets.
    LinkType,
    /// Whether another owner's XDP program is attached.
    OtherProgram,
    /// Whether the program runs in the driver, or could.
    NativeXdp,
    /// Whether the driver supports XDP with this MTU.
    Mtu,
    /// Whether packets are merged before the program sees them.
    Offloads,
    /// Whether all CPUs can receive packets.
    Queues,
    /// Packets lost before the program sees them.
    Losses,
    /// Whether the program sees the received packets.
    Traffic,
    /// Whether shadow mode is on.
    Shadow,
    /// Whether buckets are evicted too soon.
    Buckets,
    /// Whether the budget for new buckets suffices.
    Admissions,
    /// Whether there are enough cells.
    Cells,
    /// Whether unknown sources are limited.
    UnknownSources,
    /// Packets that passed because the program could not decide.
    FailOpen,
    /// Whether the table of bans was full.
    Bans,
    /// Whether the default limits an IPv6 line as a whole.
    Ipv6Lines,
    /// Whether unknown sources can prove their address.
    Proofs,
    /// Whether the sockets of this host's own connections are found.
    OwnConnections,
    /// Whether something denies this host's own network.
    OwnNetwork,
    /// The rules for the SSH session of this process.
    Ssh,
    /// The fleet that the host shares limits with.
    Fleet,
    /// How the daemon answers applications that ask to stop clients.
    Stops,
    /// Whether decisions of CrowdSec are in force.
    Crowdsec,
    /// Rate limits of nftables and iptables.
    Firewall,
}

impl Check {
    /// Returns the name in output.
    #[must_use]
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No problem.
    Ok,
    /// Information. Nothing is wrong, or nothing can be done.
    Note,
    /// It does harm now, or can be fixed. A single queue of a driver without more queues is only a note.
    Warning,
    /// It does not work.
    Error,
}

impl Severity {
    /// Returns the name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject.
    pub check: Check,
    /// The severity.
    pub severity: Severity,
    /// The interface, for a finding about one.
    pub interface: Option<String>,
    /// What was found.
    pub what: String,
    /// Why it matters. None if there is no problem.
    pub why: Option<String>,
    /// A command that fixes it, if there is one.
    pub fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: Check, what: &str) -> Self {
        Self { check, severity: Severity::Ok, interface: None, what: what.to_owned(), why: None, fix: None }
    }

    pub(super) fn note(check: Check, what: &str, why: &str) -> Self {
        Self::bad(Severity::Note, check, what, why)
    }

    pub(super) fn warning(check: Check, what: &str, why: &str) -> Self {
        Self::bad(Severity::Warning, check, what, why)
    }

    pub(super) fn error(check: Check, what: &str, why: &str) -> Self {
        Self::bad(Severity::Error, check, what, why)
    }

    fn bad(severity: Severity, check: Check, what: &str, why: &str) -> Self {
        Self { severity, why: Some(why.to_owned()).filter(|why| !why.is_empty()), ..Self::ok(check, what) }
    }

    /// Sets the interface.
    pub(super) fn on(self, interface: &str) -> Self {
        Self { interface: Some(interface.to_owned()), ..self }
    }

    /// Sets the command that fixes it. It names the instance by itself.
    pub(super) fn fixed_by(self, command: impl Into<String>) -> Self {
        Self { fix: Some(pasted::line(&command.into()).into_owned()), ..self }
    }
}

/// Returns a number with its noun: `1 rule`, `2 rules`.
pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
