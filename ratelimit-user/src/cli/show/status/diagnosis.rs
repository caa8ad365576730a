//! One sentence or two that say what happens and what to do.

use anyhow::Result;
use ratelimit_base::text::{amount::amount, units::PacketRate};
use ratelimit_common::limits::limit::{Rate, SECOND};
use ratelimit_dataplane::{readings::rates::Verdicts, tables::open::Tables};

use super::denied::Deny;
use crate::cli::print::source_row::Row;

/// Packets per second that are a flood if most of their sources were seen once.
const FLOOD: u64 = 10_000;
/// Sources that are many if most of them are new.
const MANY: usize = 1_000;

/// For so many seconds after an attach, few sources have been sampled.
const EARLY: u64 = 5;

/// What the diagnosis depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts<'a> {
    /// Whether an interface carries the program.
    pub(crate) is_attached: bool,
    /// Whether all interfaces that carried it are gone. Other lines tell what to do.
    pub(crate) are_gone: bool,
    /// Whether a rule, a list or a limit of unknown sources exists.
    pub(crate) has_rules: bool,
    /// Whether the whole instance is in shadow.
    pub(crate) is_in_shadow: bool,
    /// Whether a limit may have a shadow of its own.
    pub(crate) has_limits_in_shadow: bool,
    /// Packets per second.
    pub(crate) now: Verdicts,
    /// All packets since the first attach.
    pub(crate) packets: u64,
    /// Tracked sources.
    pub(crate) sources: usize,
    /// Those with one packet or one sample.
    pub(crate) seen_once: usize,
    /// Packets per second of unknown sources that pass. None if that is not limited.
    pub(crate) unknown: Option<u64>,
    /// Whether TCP clients can prove their addresses by SYN cookies.
    pub(crate) proves_tcp: bool,
    /// Packets per second that are refused because their source is new.
    pub(crate) refused_as_new: u64,
    /// Those of them that exceed the rate of unknown sources.
    pub(crate) over_unknown: u64,
    /// The sources with the most refused packets per second.
    pub(crate) worst: Vec<Worst<'a>>,
    /// What a deny of the first of them would do.
    pub(crate) deny: Deny,
}

/// A source with refused packets.
#[derive(Debug, Clone)]
pub(crate) struct Worst<'a> {
    source: &'a str,
    service: &'a str,
    /// Refused packets per second.
    rate: u64,
    /// Whether samples made this rate.
    is_estimate: bool,
    /// Whether a deny, a ban or a list refuses all its packets.
    is_denied: bool,
}

impl Worst<'_> {
    /// Returns what a deny of the worst source would do.
    pub(crate) fn deny(worst: &[Self], tables: &Tables) -> Result<Deny> {
        let limited = worst_of(worst).filter(|worst| worst.rate > 0 && !worst.is_denied);
        limited.map_or_else(|| Ok(Deny::default()), |worst| Deny::of(tables, worst.source))
    }
}

impl<'a> Worst<'a> {
    pub(crate) fn of(row: &'a Row) -> Self {
        let rates = row.per_second.unwrap_or_default();
        let ([_, rate], [_, is_estimate]) = (rates.ranks(), rates.are_estimates);
        Self { source: &row.source, service: &row.service, rate, is_estimate, is_denied: row.is_denied }
    }
}

/// Returns the diagnosis.
pub(crate) fn of(facts: &Facts<'_>) -> String {
    let now = &facts.now;
    let over = now.dropped.packets + now.would_drop.packets;
    if facts.are_gone {
        return "Nothing is limited now, because no interface carries the program any more.".to_owned();
    }
    if !facts.is_attached {
        return "Nothing is limited, because no interface is attached. `ratelimit attach IFACE --shadow` attaches one."
            .to_owned();
    }
    if let Some(text) = new_sources(facts) {
        return with_shadow(facts, text);
    }
    if !facts.has_rules {
        return "Nothing is limited, because there is no limit. `ratelimit suggest` observes for a minute and proposes one.".to_owned();
    }
    let arriving = now.passed.packets + now.dropped.packets;
    if over == 0 && arriving >= FLOOD && facts.packets < arriving * EARLY {
        return format!(
            "{} packets/s arrive, none over a limit. It is too early to tell whether they are forged: look again in a few seconds.",
            amount(arriving)
        );
    }
    if over == 0 && arriving >= FLOOD && facts.sources >= MANY && facts.unknown.is_none() {
        return format!(
            "No packet is over a limit now. {} packets/s arrive from at least {} sources. If you do not know them, `ratelimit set --unknown auto` limits new ones.",
            amount(arriving),
            amount(facts.sources as u64)
        );
    }
    if over == 0 {
        return "No packet is over a limit now.".to_owned();
    }
    let text = match worst_of(&facts.worst) {
        Some(worst) if worst.rate * 2 > over => one(facts, worst),
        _ => {
            let has_denied = facts.worst.iter().any(|worst| worst.is_denied && worst.rate > 0);
            let what = if has_denied { "are refused by rules and limits" } else { "are over a limit" };
            format!("{} packets/s {what}. `ratelimit sources --during 5s` lists their sources.", amount(over))
        }
    };
    with_shadow(facts, text)
}

/// Returns the diagnosis if one source sends most refused packets.
fn one(facts: &Facts<'_>, worst: &Worst<'_>) -> String {
    let Worst { source, service, rate, is_estimate, is_denied } = worst;
    let service = if *service == "any" { String::new() } else { format!(" to {service}") };
    let rate = format!("{}{}", if *is_estimate { "about " } else { "" }, amount(*rate));
    if *is_denied {
        return format!("{source} sends {rate} packets/s{service}, which a deny, a ban or a list refuses.");
    }
    let text = format!("{source} sends {rate} packets/s{service} over its limit.");
    // In shadow, a deny would drop nothing either.
    if is_mostly_shadow(facts) { text } else { format!("{text} {}", deny(worst, &facts.deny)) }
}

/// Returns what a deny of the source would do, and the command.
fn deny(Worst { source, service, .. }: &Worst<'_>, Deny { except, spared }: &Deny) -> String {
    match (spared, except.as_slice()) {
        (Some(place), _) => format!("No deny applies to {place}, which this host needs."),
        (None, []) => format!("`ratelimit deny add {source} --for 10m` drops all its packets."),
        (None, except) if except.iter().any(|except| except == service) => format!(
            "It has a rule of its own for {service}. `ratelimit deny add {source} --service {service} --for 10m` drops these packets."
        ),
        (None, except) => format!(
            "`ratelimit deny add {source} --for 10m` drops its packets, except those to {}, for which it has rules of its own.",
            except.join(", ")
        ),
    }
}

/// Returns the source with the most refused packets.
fn worst_of<'a, 'b>(worst: &'b [Worst<'a>]) -> Option<&'b Worst<'a>> {
    worst.iter().max_by_key(|worst| worst.rate)
}

/// Returns whether most refused packets pass in shadow.
const fn is_mostly_shadow(facts: &Facts<'_>) -> bool {
    facts.now.would_drop.packets > facts.now.dropped.packets
}

/// Returns the diagnosis if most packets come from new sources: a flood from forged addresses, or refused packets.
fn new_sources(facts: &Facts<'_>) -> Option<String> {
    let all = facts.now.passed.packets + facts.now.dropped.packets;
    let are_refused = facts.refused_as_new * 2 > all;
    let are_seen_once = facts.sources >= MANY && facts.seen_once * 2 > facts.sources;
    let what = if all < FLOOD {
        if facts.over_unknown * 2 <= all {
            return None;
        }
        format!("{} packets/s are refused because their sources are unknown.", amount(facts.over_unknown))
    } else if are_refused || are_seen_once {
        // Refused sources have no bucket, so they are not counted.
        let is_counted = facts.sources >= MANY;
        let sources = if is_counted { format!("at least {}", amount(facts.sources as u64)) } else { "many".to_owned() };
        format!("{} packets/s from {sources} sources, most seen once: likely forged.", amount(all))
    } else {
        return None;
    };
    let Some(rate) = facts.unknown else { return Some(format!("{what} `ratelimit set --unknown auto` limits them.")) };
    let rate = PacketRate(Rate { amount: rate, period: SECOND });
    let advice = if facts.proves_tcp {
        "`ratelimit allow add ADDRESS` lets an important source through."
    } else {
        "`ratelimit set --prove tcp` lets new TCP clients through, `ratelimit allow add ADDRESS` any important source."
    };
    Some(format!("{what} Unknown sources have {rate} in total. {advice}"))
}

fn with_shadow(facts: &Facts<'_>, text: String) -> String {
    match (facts.now.dropped.packets, facts.now.would_drop.packets) {
        (_, 0) => return text,
        (0, _) => {}
        (_, passing) => return format!("{text} {} packets/s of them pass in shadow.", amount(passing)),
    }
    text + if facts.is_in_shadow && facts.has_limits_in_shadow {
        " In shadow mode these packets pass. `ratelimit set --shadow off` enforces the limits without `--over-limit shadow`, and names the others."
    } else if facts.is_in_shadow {
        " In shadow mode these packets pass. `ratelimit set --shadow off` enforces the limits."
    } else {
        " These packets pass, because their interface or limit is in shadow."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_dataplane::readings::rates::Traffic;

    fn packets(passed: u64, dropped: u64, would_drop: u64) -> Verdicts {
        let of = |packets| Traffic { packets, bytes: packets * 60 };
        Verdicts { passed: of(passed), dropped: of(dropped), would_drop: of(would_drop) }
    }

    fn source(source: &'static str, service: &'static str, rate: u64) -> Worst<'static> {
        Worst { source, service, rate, is_estimate: false, is_denied: false }
    }

    fn quiet() -> Facts<'static> {
        Facts { is_attached: true, has_rules: true, now: packets(100, 0, 0), sources: 10, ..Facts::default() }
    }

    #[test]
    fn an_instance_without_interfaces_or_rules_says_how_to_begin() {
        assert!(of(&Facts::default()).contains("`ratelimit attach IFACE --shadow`"));
        let gone = Facts { is_attached: false, are_gone: true, ..quiet() };
        assert_eq!(of(&gone), "Nothing is limited now, because no interface carries the program any more.");
        assert!(of(&Facts { has_rules: false, ..quiet() }).contains("there is no limit"));
        assert_eq!(of(&quiet()), "No packet is over a limit now.");
        let early = Facts { now: packets(60_000, 0, 0), packets: 299_000, ..quiet() };
        assert_eq!(
            of(&early),
            "60,000 packets/s arrive, none over a limit. It is too early to tell whether they are forged: look again in a few seconds."
        );
        assert_eq!(of(&Facts { packets: 301_000, ..early.clone() }), "No packet is over a limit now.");
        assert_eq!(of(&Facts { now: packets(9_000, 0, 0), ..early }), "No packet is over a limit now.");
    }

    #[test]
    fn a_flood_from_sources_that_were_seen_once_is_likely_forged() {
        let flood = Facts { now: packets(3_100_000, 20, 0), sources: 200_000, seen_once: 180_000, ..quiet() };
        assert_eq!(
            of(&flood),
            "3.1 M packets/s from at least 200,000 sources, most seen once: likely forged. `ratelimit set --unknown auto` limits them."
        );
        let limited = Facts { unknown: Some(20_000), ..flood.clone() };
        assert!(of(&limited).contains(" Unknown sources have 20k/s in total. `ratelimit set --prove tcp` lets"));
        let proving = of(&Facts { proves_tcp: true, ..limited });
        assert!(proving.ends_with("in total. `ratelimit allow add ADDRESS` lets an important source through."));
        // Forged addresses can come back, too.
        let back = Facts { now: packets(59_882, 0, 0), packets: 600_000, sources: 40_000, seen_once: 900, ..quiet() };
        assert_eq!(
            of(&back),
            "No packet is over a limit now. 59,882 packets/s arrive from at least 40,000 sources. If you do not know them, `ratelimit set --unknown auto` limits new ones."
        );
        assert_eq!(of(&Facts { unknown: Some(1), ..back }), "No packet is over a limit now.");
        // Many returning sources, or few packets, are no flood.
        assert!(!of(&Facts { seen_once: 90_000, ..flood.clone() }).contains("forged"));
        assert!(!of(&Facts { now: packets(9_000, 20, 0), ..flood.clone() }).contains("forged"));
        // Refused sources have no bucket.
        let refused = Facts { sources: 10, seen_once: 0, refused_as_new: 80_000, now: packets(10, 90_000, 0), ..flood };
        assert!(of(&refused).starts_with("90,010 packets/s from many sources, most seen once: likely forged."));
        // A few are not listed by `sources` either.
        let few = Facts { over_unknown: 2_900, now: packets(200, 2_900, 0), unknown: Some(200), ..refused };
        let text = of(&few);
        let expected =
            "2,900 packets/s are refused because their sources are unknown. Unknown sources have 200/s in total.";
        assert!(text.starts_with(expected), "{text}");
        assert!(!of(&Facts { over_unknown: 10, ..few }).contains("Unknown sources"));
    }

    #[test]
    fn one_source_is_named_if_it_sends_most_packets_over_a_limit() {
        let worst = vec![source("192.0.2.1", "udp/53", 900), source("192.0.2.2", "any", 10)];
        let facts = Facts { now: packets(100, 1_000, 0), worst, ..quiet() };
        assert_eq!(
            of(&facts),
            "192.0.2.1 sends 900 packets/s to udp/53 over its limit. `ratelimit deny add 192.0.2.1 --for 10m` drops all its packets."
        );
        let with = |deny: Deny| of(&Facts { deny, ..facts.clone() });
        let own = |service: &str| Deny { except: vec![service.to_owned()], spared: None };
        let text = with(own("tcp/22"));
        assert!(
            text.ends_with("drops its packets, except those to tcp/22, for which it has rules of its own."),
            "{text}"
        );
        let text = with(own("udp/53"));
        assert!(
            text.ends_with("`ratelimit deny add 192.0.2.1 --service udp/53 --for 10m` drops these packets."),
            "{text}"
        );
        let text = with(Deny { spared: Some("192.0.2.1 (gateway)".to_owned()), ..Deny::default() });
        assert!(text.ends_with(" No deny applies to 192.0.2.1 (gateway), which this host needs."), "{text}");
        let denied = Worst { is_denied: true, ..source("192.0.2.1", "any", 900) };
        let text = of(&Facts { worst: vec![denied], ..facts.clone() });
        assert_eq!(text, "192.0.2.1 sends 900 packets/s, which a deny, a ban or a list refuses.");
        let estimate = Worst { is_estimate: true, ..source("192.0.2.1", "any", 900) };
        let text = of(&Facts { worst: vec![estimate], ..facts.clone() });
        assert!(text.starts_with("192.0.2.1 sends about 900 packets/s over its limit."), "{text}");
        let many = Facts { now: packets(100, 10_000, 0), ..facts };
        assert!(of(&many).starts_with("10,000 packets/s are over a limit."), "{}", of(&many));
    }

    #[test]
    fn shadow_mode_is_named_if_packets_pass_because_of_it() {
        let facts = Facts { is_in_shadow: true, now: packets(100, 0, 50), ..quiet() };
        assert!(of(&facts).ends_with("`ratelimit set --shadow off` enforces the limits."));
        let with_own = of(&Facts { has_limits_in_shadow: true, ..facts.clone() });
        assert!(with_own.ends_with("the limits without `--over-limit shadow`, and names the others."), "{with_own}");
        assert!(!of(&Facts { now: packets(100, 0, 0), ..facts.clone() }).contains("shadow"));
        let mixed = of(&Facts { now: packets(100, 40, 50), ..facts.clone() });
        assert!(mixed.ends_with(" 50 packets/s of them pass in shadow."), "{mixed}");
        // An interface alone in shadow is named, and a deny is no advice there.
        let worst = vec![source("192.0.2.1", "any", 50)];
        let text = of(&Facts { is_in_shadow: false, worst, ..facts });
        assert!(text.ends_with("over its limit. These packets pass, because their interface or limit is in shadow."));
    }
}
