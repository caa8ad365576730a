//! What a check has found.

use serde::Serialize;

/// What was looked at. The names are for programs to rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The capabilities of this process.
    Privileges,
    /// The kernel's version.
    Kernel,
    /// Whether programs are compiled.
    Jit,
    /// Whether the kernel measures programs.
    BpfStatistics,
    /// What the precise clock is read from.
    ClockSource,
    /// Where pins are kept.
    Bpffs,
    /// Whether there is an instance that can be used.
    Instance,
    /// Instances beside it.
    OtherInstances,
    /// Whether a daemon follows a file.
    Daemon,
    /// Whether an interface is there, and looked at.
    Interface,
    /// Whether it is up.
    Link,
    /// Whether it carries somebody else's program.
    OtherProgram,
    /// Whether the program runs in its driver.
    NativeXdp,
    /// Whether its frames fit.
    Mtu,
    /// Whether packets are joined before a program sees them.
    Offloads,
    /// Whether all CPUs can take what arrives.
    Queues,
    /// Packets lost before the program.
    Losses,
    /// Whether the program sees what arrives.
    Traffic,
    /// Whether nothing is enforced.
    Shadow,
    /// Room for buckets.
    Buckets,
    /// The budget for new buckets.
    Admissions,
    /// Packets that passed because nothing could be decided.
    FailOpen,
    /// Room for bans.
    Bans,
    /// The SSH session that this runs in.
    Ssh,
    /// Limits of nftables and iptables.
    Firewall,
}

impl Check {
    /// The name in output.
    #[must_use]
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good.
    Ok,
    /// To be known; nothing is wrong.
    Note,
    /// It works, and will hurt.
    Warning,
    /// It does not work.
    Error,
}

impl Severity {
    /// The word in output.
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
    /// What was looked at.
    pub check: Check,
    /// How bad it is.
    pub severity: Severity,
    /// The interface that it is about.
    pub interface: Option<String>,
    /// What is so.
    pub what: String,
    /// Why it matters; nothing where all is good.
    pub why: Option<String>,
    /// The command that mends it, where there is one.
    pub mend: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: Check, what: &str) -> Self {
        Self { check, severity: Severity::Ok, interface: None, what: what.to_owned(), why: None, mend: None }
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

    /// The same about this interface.
    pub(super) fn on(self, interface: &str) -> Self {
        Self { interface: Some(interface.to_owned()), ..self }
    }

    /// The same with a command that mends it.
    pub(super) fn mended_by(self, command: impl Into<String>) -> Self {
        Self { mend: Some(command.into()), ..self }
    }
}

/// So many of them: `1 rule`, `2 rules`.
pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
