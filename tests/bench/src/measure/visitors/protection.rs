//! What protects the server from forged packets, while it does not know its visitors.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use ratelimit_tests::{Ratelimit, Sandbox, Sink, VICTIM_LINK};

use super::layout::OUTSIDE;
use crate::{
    flood::SERVER_PORT,
    measure::limiters::{run, words},
};

/// Settings of the victim's network stack.
const COOKIES: &str = "net/ipv4/tcp_syncookies";
const TIMESTAMPS: &str = "net/ipv4/tcp_timestamps";
const LOOSE: &str = "net/netfilter/nf_conntrack_tcp_loose";

/// A protection of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    None,
    /// The product with a limit of unknown sources.
    Unknown,
    /// The same with SYN cookies.
    Prove,
    /// The statement `synproxy` of nftables, as its manual describes it.
    Synproxy,
    /// An XDP program that knows the visitors and drops all else. No protection can do more.
    PlainDrop,
}

/// A protection at the victim's link. Removed on drop.
pub(super) struct Standing<'a> {
    sandbox: &'a Sandbox,
    way: Way<'a>,
    /// Settings of the network stack, and what they were before.
    settings: Vec<(&'static str, String)>,
}

/// What must be removed.
enum Way<'a> {
    Program { _sink: Sink },
    Rules { _driver: Sink },
    Product(Ratelimit<'a>),
}

impl Protection {
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::Unknown, Self::Prove, Self::Synproxy, Self::PlainDrop];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no protection",
            Self::Unknown => "`--unknown 1k/s`",
            Self::Prove => "`--unknown 1k/s --prove tcp`",
            Self::Synproxy => "nftables `synproxy`",
            Self::PlainDrop => "plain XDP drop",
        }
    }

    /// Returns whether this machine has the protection, and prints what is missing.
    pub(super) fn is_here(self, sandbox: &Sandbox) -> bool {
        let missing = self.set_up(sandbox).err();
        missing.as_ref().inspect(|error| println!("{} is skipped: {error:#}", self.name()));
        missing.is_none()
    }

    /// Installs the protection.
    pub(super) fn set_up(self, sandbox: &Sandbox) -> Result<Standing<'_>> {
        // A veth handles each packet in another way as soon as it has an XDP program. All rows have one.
        let program = |sink| Standing { sandbox, way: Way::Program { _sink: sink }, settings: Vec::new() };
        match self {
            Self::None => Ok(program(Sink::passing(sandbox, VICTIM_LINK))),
            Self::PlainDrop => Ok(program(Sink::passing_from(sandbox, VICTIM_LINK, OUTSIDE))),
            Self::Unknown => product(sandbox, &[], ""),
            Self::Prove => product(sandbox, &[(COOKIES, "2")], "--prove tcp"),
            Self::Synproxy => {
                let settings = set(sandbox, &[(TIMESTAMPS, "1"), (LOOSE, "0")])?;
                let way = Way::Rules { _driver: Sink::passing(sandbox, VICTIM_LINK) };
                let standing = Standing { sandbox, way, settings };
                let rules = format!(
                    "table ip bench {{ \
                       chain untracked {{ \
                         type filter hook prerouting priority raw; policy accept; \
                         tcp dport {SERVER_PORT} tcp flags syn notrack; \
                       }}; \
                       chain proxied {{ \
                         type filter hook input priority filter; policy accept; \
                         tcp dport {SERVER_PORT} ct state invalid,untracked \
                           synproxy mss 1460 wscale 7 timestamp sack-perm; \
                         ct state invalid drop; \
                       }}; \
                     }}"
                );
                run(sandbox, "nft", &[&rules])?;
                Ok(standing)
            }
        }
    }
}

/// Attaches the product as an operator does.
fn product<'a>(sandbox: &'a Sandbox, wanted: &[(&'static str, &str)], options: &str) -> Result<Standing<'a>> {
    let standing = Standing { sandbox, settings: set(sandbox, wanted)?, way: Way::Product(Ratelimit::new(sandbox)) };
    if let Way::Product(ratelimit) = &standing.way {
        let output = ratelimit.run(&format!("attach {VICTIM_LINK} --unknown 1k/s {options}"));
        ensure!(output.status == 0, "cannot attach: {}", output.stderr.trim());
    }
    Ok(standing)
}

/// Sets what the victim's network stack needs, and returns what was set before.
fn set(sandbox: &Sandbox, wanted: &[(&'static str, &str)]) -> Result<Vec<(&'static str, String)>> {
    let exchange = |name, value| -> Result<_> {
        let before = fs::read_to_string(path(name)).with_context(|| format!("the kernel has no {name}"))?;
        fs::write(path(name), value).with_context(|| format!("cannot set {name}"))?;
        Ok((name, before))
    };
    sandbox.victim(|| wanted.iter().map(|(name, value)| exchange(*name, *value)).collect())
}

fn path(name: &str) -> String {
    format!("/proc/sys/{name}")
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        match &self.way {
            Way::Program { .. } => {}
            Way::Rules { .. } => drop(run(self.sandbox, "nft", &words("delete table ip bench"))),
            Way::Product(ratelimit) => drop(ratelimit.run("detach --all")),
        }
        for (name, before) in &self.settings {
            // The namespace ends with the sandbox.
            let _ = self.sandbox.victim(|| fs::write(path(name), before));
        }
    }
}
