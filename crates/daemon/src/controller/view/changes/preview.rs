//! What a change would have done in the last hour.

use std::time::Duration;

use anyhow::Result;
use ratelimit_base::text::{prefix::Prefix, service::ServiceName};
use ratelimit_common::{
    identity::{
        class::{ANY, Class},
        service::{Service, Transport},
    },
    limits::policy::{ALLOW, LIMIT, SHADOW},
};
use ratelimit_dataplane::{
    readings::hour::{Hour, MOST, Sent},
    rules::{
        list::{Listed, around},
        services::Services,
        spec::RuleSpec,
        target::{Sources, Target},
    },
    sys::host,
    tables::open::Tables,
};
use ratelimit_protocol::view::{HitRow, Preview};

use super::{
    effect,
    plan::{Plan, words},
};
use crate::ssh::{OPEN, Session, Standing};

/// The CPU time to find the sources of a rule.
const BUDGET: Duration = Duration::from_millis(100);
/// Sources that are named.
const NAMED: usize = 20;

/// Says what a change would have done. `sessions` are those that no change shuts out, and the connection of the visitor.
pub(super) fn preview(
    tables: &Tables,
    plan: &Plan,
    existing: Option<&Listed>,
    hour: &Hour,
    sessions: (&[Session], Option<Session>),
) -> Result<Preview> {
    let (target, sample) = (plan.target, hour.sample());
    let mut preview = Preview {
        packets: target.to_string(),
        before: existing.map(words),
        after: plan.after.as_ref().map(words),
        seconds: hour.watched().as_secs(),
        ..Preview::default()
    };
    let services = Services::read(tables)?;
    let class = services.class(target.service);
    let is_verdict = |rule: &Listed| rule.spec.policy.kind != LIMIT;
    let (sent, left_out) =
        in_scope(tables, target, plan.after.as_ref().is_some_and(is_verdict), &services, hour.sent())?;
    for Sent { all, .. } in &sent {
        preview.seen.add(all.packets, all.dropped);
    }
    let refuses = |spec: &RuleSpec| (spec.policy.kind != ALLOW).then(|| effect::of(spec, &sent, sample));
    preview.now = match existing {
        Some(rule) if is_verdict(rule) => refuses(&rule.spec).map(|(effect, _)| effect),
        Some(rule) => {
            let own: Vec<Sent> = sent.iter().filter(|sent| sent.service == target.service).cloned().collect();
            Some(effect::of(&rule.spec, &own, sample).0)
        }
        None => None,
    };
    if let Some((effect, hit)) = plan.after.as_ref().and_then(|rule| refuses(&rule.spec)) {
        preview.then = Some(effect);
        let named =
            hit.into_iter().take(NAMED).filter_map(|(place, refused)| sent.get(place).map(|sent| (sent, refused)));
        let row = |(sent, refused): (&Sent, u64)| HitRow {
            source: Prefix::of(&sent.source, sent.source.prefix).to_string(),
            packets: sent.all.packets,
            refused,
        };
        preview.worst = named.map(row).collect();
    }
    preview.bounds = bounds(plan, class, hour, left_out);
    preview.warnings = warnings(tables, plan, class, sessions)?;
    Ok(preview)
}

/// Returns the sources whose packets a rule decides about, and how many there was no time for. A rule allow or deny for all
/// packets also decides where services have rules for shorter prefixes.
fn in_scope(
    tables: &Tables,
    target: Target,
    is_verdict: bool,
    services: &Services,
    all: Vec<Sent>,
) -> Result<(Vec<Sent>, usize)> {
    let end = host::thread_time() + BUDGET;
    let is_of_all = is_verdict && target.service == Service::Any;
    let (mut sent, mut left_out) = (Vec::new(), 0);
    for source in all {
        let is_same = source.service == target.service;
        let Some(class) = services.class(source.service).filter(|_| is_same || is_of_all) else { continue };
        let least = match target.sources {
            Sources::Default => 0,
            Sources::Prefix(prefix) if !prefix.contains(&Prefix::of(&source.source, source.source.prefix)) => continue,
            Sources::Prefix(prefix) => prefix.bits() + u8::from(is_same),
        };
        if host::thread_time() > end {
            left_out += 1;
        } else if !around::has_rule(tables, least, &source.source.of_class(class))? {
            sent.push(source);
        }
    }
    Ok((sent, left_out))
}

/// Says what the numbers leave out.
fn bounds(plan: &Plan, class: Option<Class>, hour: &Hour, left_out: usize) -> Vec<String> {
    let mut said = Vec::new();
    if class.is_none() {
        let service = ServiceName(plan.target.service);
        said.push(format!("No rule tells packets of {service} apart yet, so the daemon has not counted them."));
    } else if plan.target.service != Service::Any {
        said.push("Packets of the service are counted only for sources to which a rule for it applies.".to_owned());
    }
    said.push(format!("In each minute, the daemon counts the {MOST} busiest sources."));
    if hour.sample() > 1 {
        let sample = hour.sample();
        said.push(format!(
            "Cells count packets by samples, 1 of {sample}. A source below {} packets in a minute is not hit here.",
            2 * sample
        ));
    }
    if hour.is_part() {
        said.push("Some sources are missing, because there was no time to read all of them.".to_owned());
    }
    if left_out > 0 {
        said.push(format!("There was no time for {left_out} further sources, which have sent fewer packets."));
    }
    let Some(rule) = plan.after.as_ref().filter(|rule| rule.spec.policy.kind == LIMIT) else { return said };
    said.push("Bursts within a minute are not seen, so the limit can hit more.".to_owned());
    if rule.spec.policy.over_limit == SHADOW {
        said.push("In shadow, packets over the limit pass, and are only counted.".to_owned());
    }
    if rule.spec.policy.soft != 0 || rule.spec.policy.elastic != 0 {
        said.push("The numbers leave out what a soft or elastic limit admits on top.".to_owned());
    }
    if !rule.spec.parents.is_empty() {
        said.push("The numbers leave out the parents of the limit.".to_owned());
    }
    said
}

/// Says which connections the change would make worse off, as far as the rule itself tells.
fn warnings(
    tables: &Tables,
    plan: &Plan,
    class: Option<Class>,
    (sessions, visitor): (&[Session], Option<Session>),
) -> Result<Vec<String>> {
    let Some(after) = &plan.after else { return Ok(Vec::new()) };
    let services = Services::read(tables)?;
    let ipv6_prefix = tables.control()?.ipv6_prefix as u8;
    let mut said = Vec::new();
    let named = visitor.into_iter().map(|session| (session, "Your connection to the console"));
    for (session, whose) in named.chain(sessions.iter().map(|session| (*session, "An SSH session"))) {
        let address = session.prefix();
        let is_inside = match plan.target.sources {
            Sources::Default => true,
            Sources::Prefix(prefix) => prefix.contains(&address),
        };
        let port = services.of_port(Transport::Tcp, session.port);
        if !is_inside || plan.target.service != Service::Any && plan.target.service != port {
            continue;
        }
        let [before, _] = session.standing(tables)?;
        let least = match plan.target.sources {
            Sources::Default => 0,
            Sources::Prefix(prefix) => prefix.bits() + 1,
        };
        let source = address.source();
        let source = source.shortened(source.bits(ipv6_prefix));
        let has_narrower = |class| around::has_rule(tables, least, &source.of_class(class));
        // An allow for a longer prefix wins, also one for all packets. A service without a class has no rule.
        if class.map_or(Ok(false), has_narrower)? || before.is_allowed() && has_narrower(ANY)? {
            continue;
        }
        let after = Standing { spec: (*after.spec).clone(), is_lasting: after.expires_in.is_none() };
        if after.is_worse(&before, &OPEN) {
            said.push(format!("{whose} comes from {address}. The daemon refuses a change that could block it."));
        }
    }
    said.dedup();
    Ok(said)
}
