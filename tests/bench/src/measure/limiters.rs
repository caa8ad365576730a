//! Limiters for real frames: none, the product, nftables and iptables. To compare their speed, all of them drop what
//! passes at their hook, and count it.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use aya::programs::XdpMode;
use ratelimit_common::limits::policy::Policy;
use ratelimit_tests::{Bytecode, Sandbox, Sink, Sources, VICTIM_LINK, per_second};

use crate::{
    configurations::Configuration,
    measure::packet::verdicts,
    state::{State, never_reached, reached_at_once},
};

/// Maximum number of sources of both other limiters, set by iptables.
pub(super) const ENTRIES: u32 = 1 << 20;

/// A limiter of real frames.
#[derive(Clone, Copy)]
pub(crate) enum Limiter {
    /// An XDP program that drops.
    Floor,
    /// The same, but each packet writes one line of a large array.
    OneLine,
    /// A row of the benchmark.
    Ours(&'static Configuration),
    /// A dynamic set with a limit per address, in the hook after the driver.
    Nftables,
    /// The match `hashlimit` in the first table.
    Iptables,
}

/// What a limiter is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Terms {
    /// A limit whose state this is. The limiter drops what it admits.
    Speed(State),
    /// A limit of each source. The network stack receives what it admits.
    Rate { per_second: u64, burst: u64 },
}

/// A limiter at the victim's link. Removed on drop.
pub(crate) enum Standing<'a> {
    Sink(Sink),
    Ours(Box<Bytecode>),
    Nftables(&'a Sandbox),
    Iptables(&'a Sandbox),
}

impl Limiter {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "XDP drop",
            Self::OneLine => "one line",
            Self::Ours(configuration) => configuration.name,
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        }
    }

    /// Returns whether this machine has the limiter, and prints what is missing.
    pub(crate) fn is_here(self, sandbox: &Sandbox) -> bool {
        let missing = self.set_up(sandbox, Terms::Speed(State::Over), Sources::Count(1)).err();
        missing.as_ref().inspect(|error| println!("{} is skipped: {error:#}", self.name()));
        missing.is_none()
    }

    /// Installs the limiter, without counters and sources.
    pub(crate) fn set_up(self, sandbox: &Sandbox, terms: Terms, sources: Sources) -> Result<Standing<'_>> {
        let passes = matches!(terms, Terms::Rate { .. });
        match self {
            Self::Floor => Ok(Standing::Sink(Sink::dropping(sandbox, VICTIM_LINK))),
            Self::OneLine => Ok(Standing::Sink(Sink::touching_one_line(sandbox, VICTIM_LINK))),
            Self::Ours(configuration) => {
                let mut bytecode = configuration.build(sources)?;
                (configuration.rules)(&mut bytecode, &terms.policy()?);
                if passes {
                    bytecode.attach(sandbox, VICTIM_LINK, XdpMode::Driver);
                } else {
                    bytecode.attach_dropping(sandbox, VICTIM_LINK);
                }
                Ok(Standing::Ours(Box::new(bytecode)))
            }
            Self::Nftables => {
                let [rate, burst] = terms.words(100_000_000, "second");
                let verdict = if passes { "accept" } else { "drop" };
                let rules = format!(
                    "table netdev bench {{ \
                       set sources {{ type ipv4_addr; size {ENTRIES}; flags dynamic,timeout; timeout 60s; }}; \
                       chain ingress {{ \
                         type filter hook ingress device {VICTIM_LINK} priority 0; policy accept; \
                         update @sources {{ ip saddr limit rate over {rate} burst {burst} packets }} counter drop; \
                         counter {verdict}; \
                       }}; \
                     }}"
                );
                run(sandbox, "nft", &[&rules])?;
                Ok(Standing::Nftables(sandbox))
            }
            Self::Iptables => {
                // It has no higher rate. One source does not use up a burst of another second within a sample of speed.
                let [rate, burst] = terms.words(1_000_000, "sec");
                let verdict = if passes { "ACCEPT" } else { "DROP" };
                let entries = ENTRIES.to_string();
                let limit = format!(
                    "-t raw -A PREROUTING -m hashlimit --hashlimit-name bench --hashlimit-mode srcip \
                     --hashlimit-above {rate} --hashlimit-burst {burst} --hashlimit-htable-size {entries} \
                     --hashlimit-htable-max {entries} --hashlimit-htable-expire 60000 -j DROP"
                );
                let standing = Standing::Iptables(sandbox);
                run(sandbox, "iptables", &words(&limit))?;
                run(sandbox, "iptables", &words(&format!("-t raw -A PREROUTING -j {verdict}")))?;
                Ok(standing)
            }
        }
    }
}

impl Terms {
    fn policy(self) -> Result<Policy> {
        match self {
            Self::Speed(State::Over) => reached_at_once(),
            Self::Speed(_) => Ok(never_reached()),
            Self::Rate { per_second, burst } => Ok(self::per_second(per_second, burst)),
        }
    }

    /// Returns rate and burst for a limiter with this highest rate and this word for a second.
    fn words(self, highest: u64, second: &str) -> [String; 2] {
        match self {
            Self::Speed(State::Over) => ["1/minute".to_owned(), "1".to_owned()],
            Self::Speed(_) => [format!("{highest}/{second}"), "1000000".to_owned()],
            Self::Rate { per_second, burst } => [format!("{per_second}/{second}"), burst.to_string()],
        }
    }
}

impl Standing<'_> {
    /// Sets the admission budget per second, and returns how many buckets were possible, if the limiter has such a
    /// budget.
    pub(crate) fn set_admissions(&mut self, per_second: u64) -> u64 {
        match self {
            Self::Ours(bytecode) => bytecode.set_admissions(per_second),
            _ => per_second,
        }
    }

    /// Returns packets within and over their limit.
    pub(crate) fn verdicts(&self) -> Result<(u64, u64)> {
        let numbers = |text: &str| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
        match self {
            Self::Sink(sink) => Ok((sink.received(), 0)),
            Self::Ours(bytecode) => verdicts(bytecode),
            Self::Nftables(sandbox) => {
                // Terse output of everything: otherwise nft reads all addresses first.
                let text = run(sandbox, "nft", &words("--terse list ruleset"))?;
                let counters: Vec<_> = text.split("counter packets").skip(1).collect();
                ensure!(counters.len() == 2, "nft lists other rules than were set: {text}");
                Ok((numbers(counters[1])[0], numbers(counters[0])[0]))
            }
            Self::Iptables(sandbox) => {
                let text = run(sandbox, "iptables", &words("-t raw -nvxL PREROUTING"))?;
                let rules: Vec<_> = text.lines().skip(2).collect();
                ensure!(rules.len() == 2, "iptables lists other rules than were set: {text}");
                Ok((numbers(rules[1])[0], numbers(rules[0])[0]))
            }
        }
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        match self {
            Self::Nftables(sandbox) => drop(run(sandbox, "nft", &words("delete table netdev bench"))),
            Self::Iptables(sandbox) => drop(run(sandbox, "iptables", &words("-t raw -F PREROUTING"))),
            Self::Sink(_) | Self::Ours(_) => {}
        }
    }
}

/// Runs a command in the victim's namespace and returns its output.
pub(super) fn run(sandbox: &Sandbox, program: &str, words: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(words);
    let output = sandbox.victim(|| command.output()).with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?)
}

pub(super) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
