//! What protects the server. All limiters have the same rules: the users are allowed, and any other source may send one
//! packet per minute, which reaches the server. Against an endless flood, the product also limits unknown sources, which
//! the others cannot.

use std::net::Ipv4Addr;

use anyhow::Result;
use aya::programs::XdpMode;
use ratelimit_common::limits::policy::Policy;
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Sandbox, Sink, Sources, VICTIM_LINK};

use crate::{
    measure::limiters::{ENTRIES, run, words},
    state::reached_at_once,
};

/// The users: an address and the length of its prefix. An endless flood has one of them as its source once in a billion
/// packets.
pub(super) const USERS: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 9, 0, 0), 30);

/// Packets per second of all unknown sources, where the product has this limit.
const UNKNOWN: u64 = 10_000;

/// A protection of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    None,
    /// A dynamic set with a limit per address, in the hook after the driver.
    Nftables,
    /// The match `hashlimit` in the first table.
    Hashlimit,
    Ours,
    /// The plain drop, but each dropped packet writes one line of a large array.
    OneLine,
    /// An XDP program that knows the users and drops all else.
    PlainDrop,
}

/// A protection at the victim's link. Removed on drop.
pub(super) enum Standing<'a> {
    None { _driver: Sink },
    Nftables { sandbox: &'a Sandbox, _driver: Sink },
    Hashlimit { sandbox: &'a Sandbox, _driver: Sink },
    Ours { _bytecode: Box<Bytecode> },
    Sink { _sink: Sink },
}

impl Protection {
    pub(crate) const ALL: [Self; 6] =
        [Self::None, Self::Nftables, Self::Hashlimit, Self::Ours, Self::OneLine, Self::PlainDrop];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no protection",
            Self::Nftables => "nftables",
            Self::Hashlimit => "hashlimit",
            Self::Ours => "ratelimit",
            Self::OneLine => "one line",
            Self::PlainDrop => "plain XDP drop",
        }
    }

    /// Returns whether this machine has the protection, and prints what is missing.
    pub(super) fn is_here(self, sandbox: &Sandbox) -> bool {
        let missing = self.set_up(sandbox, Sources::Count(1)).err();
        missing.as_ref().inspect(|error| println!("{} is skipped: {error:#}", self.name()));
        missing.is_none()
    }

    /// Installs the protection against a flood of this many sources.
    pub(super) fn set_up(self, sandbox: &Sandbox, sources: Sources) -> Result<Standing<'_>> {
        let (address, length) = USERS;
        // A veth handles each packet in another way as soon as it has an XDP program. All rows have one.
        let passing = || Sink::passing(sandbox, VICTIM_LINK);
        match self {
            Self::None => Ok(Standing::None { _driver: passing() }),
            Self::OneLine => {
                Ok(Standing::Sink { _sink: Sink::touching_one_line_except_from(sandbox, VICTIM_LINK, USERS) })
            }
            Self::PlainDrop => Ok(Standing::Sink { _sink: Sink::passing_from(sandbox, VICTIM_LINK, USERS) }),
            Self::Ours => {
                let unknown = if sources == Sources::Endless { UNKNOWN } else { 0 };
                let mut bytecode = Bytecode::with_kernel_clock_and(Settings { unknown, ..Settings::default() });
                bytecode.set("default", reached_at_once()?);
                bytecode.set(&format!("{address}/{length}"), Policy::ALLOWED);
                bytecode.attach(sandbox, VICTIM_LINK, XdpMode::Driver);
                Ok(Standing::Ours { _bytecode: Box::new(bytecode) })
            }
            Self::Nftables => {
                let rules = format!(
                    "table netdev bench {{ \
                       set sources {{ type ipv4_addr; size {ENTRIES}; flags dynamic,timeout; timeout 60s; }}; \
                       chain ingress {{ \
                         type filter hook ingress device {VICTIM_LINK} priority 0; policy accept; \
                         ip saddr {address}/{length} accept; \
                         update @sources {{ ip saddr limit rate over 1/minute burst 1 packets }} drop; \
                       }}; \
                     }}"
                );
                run(sandbox, "nft", &[&rules])?;
                Ok(Standing::Nftables { sandbox, _driver: passing() })
            }
            Self::Hashlimit => {
                let standing = Standing::Hashlimit { sandbox, _driver: passing() };
                let table = format!(
                    "--hashlimit-mode srcip --hashlimit-htable-size {ENTRIES} --hashlimit-htable-max {ENTRIES} \
                     --hashlimit-htable-expire 60000"
                );
                let users = format!("-t raw -A PREROUTING -s {address}/{length} -j ACCEPT");
                let others = format!(
                    "-t raw -A PREROUTING -m hashlimit --hashlimit-name others --hashlimit-above 1/min \
                     --hashlimit-burst 1 {table} -j DROP"
                );
                run(sandbox, "iptables", &words(&users))?;
                run(sandbox, "iptables", &words(&others))?;
                Ok(standing)
            }
        }
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        match self {
            Self::Nftables { sandbox, .. } => drop(run(sandbox, "nft", &words("delete table netdev bench"))),
            Self::Hashlimit { sandbox, .. } => drop(run(sandbox, "iptables", &words("-t raw -F PREROUTING"))),
            Self::None { .. } | Self::Ours { .. } | Self::Sink { .. } => {}
        }
    }
}
