//! Which of two rules for different services applies to packets of both. This is what
//! [`ratelimit_common::rules::precedence`] decides, for rules instead of packets.

use ratelimit_common::{
    identity::service::{Service, TCP, Transport},
    limits::policy::{ALLOW, DENY, LIMIT},
};

use crate::rules::{
    spec::RuleSpec,
    target::{Sources, Target},
};

/// What a rule does with some packets of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Nothing that an operator would not expect of its sources and its service.
    None,
    /// The other rule applies to them.
    Outranked,
    /// This rule applies to them.
    Outranks,
}

/// Returns whether two different services have packets in common.
#[must_use]
pub fn meet(one: Service, other: Service) -> bool {
    let is_inside = |inner: Service, outer: Service| match (inner, outer) {
        (_, Service::Any) => true,
        (Service::Ports(transport, ..), Service::Protocol(protocol)) => transport.protocol() == protocol,
        (Service::TcpSyn, Service::Protocol(TCP)) => true,
        _ => false,
    };
    one != other && (is_inside(one, other) || is_inside(other, one) || cross(one, other))
}

/// Returns whether each of two services has packets that the other one does not have: new connections and a port.
#[must_use]
pub fn cross(one: Service, other: Service) -> bool {
    let is_pair = |one, other| one == Service::TcpSyn && matches!(other, Service::Ports(Transport::Tcp, ..));
    is_pair(one, other) || is_pair(other, one)
}

/// Returns how narrow a service is, as the kernel side chains classes.
const fn narrowness(service: Service) -> u8 {
    match service {
        Service::Any => 0,
        Service::Protocol(_) | Service::Icmp => 1,
        Service::Ports(..) => 2,
        Service::TcpSyn => 3,
    }
}

/// Returns the depth of a rule. That of the default is the least.
fn depth(sources: Sources) -> u16 {
    match sources {
        Sources::Default => 0,
        Sources::Prefix(prefix) => 1 + u16::from(prefix.bits()),
    }
}

/// Returns whether the sources of one rule are those of another, or some of them.
#[must_use]
pub fn is_within(inner: Sources, outer: Sources) -> bool {
    match (inner, outer) {
        (_, Sources::Default) => true,
        (Sources::Default, Sources::Prefix(_)) => false,
        (Sources::Prefix(inner), Sources::Prefix(outer)) => outer.contains(&inner),
    }
}

/// Returns what a rule does with packets of another one.
///
/// Rules of a wider prefix or a wider service give way by what they say, so most pairs are no surprise. Named is a rule
/// for the same or for narrower sources that this one does not reach, or takes packets from, and each pair of new
/// connections and a port.
#[must_use]
pub fn overlap((target, spec): (Target, &RuleSpec), (of, other): (Target, &RuleSpec)) -> Overlap {
    let [is_inside, is_around] = [is_within(of.sources, target.sources), is_within(target.sources, of.sources)];
    // That a service has another rule than all others of the same sources is what the rule is for.
    let is_plain = target.sources == of.sources && [target, of].iter().any(|target| target.service == Service::Any);
    if is_plain || !meet(target.service, of.service) || !(is_inside || is_around) {
        return Overlap::None;
    }
    let is_verdict = |spec: &RuleSpec| matches!(spec.policy.kind, ALLOW | DENY);
    let wins = |narrow: Target, (wide, spec): (Target, &RuleSpec)| {
        !is_verdict(spec) || depth(wide.sources) <= depth(narrow.sources)
    };
    let is_narrower = narrowness(target.service) > narrowness(of.service);
    let outranks = if is_narrower { wins(target, (of, other)) } else { !wins(of, (target, spec)) };
    let is_limit = |spec: &RuleSpec| spec.policy.kind == LIMIT;
    // The default is for sources without another rule.
    let is_expected = target.sources == Sources::Default && of.sources != Sources::Default;
    match outranks {
        false if !is_expected || cross(target.service, of.service) => Overlap::Outranked,
        true if is_limit(spec) && is_limit(other) && (is_inside || cross(target.service, of.service)) => {
            Overlap::Outranks
        }
        _ => Overlap::None,
    }
}
