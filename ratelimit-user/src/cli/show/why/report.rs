//! What decides about an address, as text and as JSON.

use std::{
    io::{self, Write},
    thread,
    time::Duration,
};

use anyhow::Result;
use jiff::Timestamp;
use ratelimit_base::text::{
    prefix::Prefix,
    service::ServiceName,
    units::{self, PacketRate},
};
use ratelimit_common::{
    identity::{
        class,
        service::{Service, Transport},
        source::Source,
    },
    limits::{
        limit::{Rate, SECOND},
        policy::{ALLOW, LIMIT, Policy, SHADOW},
    },
    maps::control::{Control, FEATURE_SHADOW, FEATURE_SHADOW_PROGRAMS},
    reason::Count,
};
use ratelimit_dataplane::{
    decision::{self, Decision, Voice},
    lists::action::Action,
    readings::{self, gauges, sampling::Sampling, source_counts::SourceCounts, standing::Standing},
    rules::{
        list::{self, around},
        services::Services,
        spec::RuleSpec,
        target::Target,
    },
    spared::place::PlaceRow,
    sys::host,
    tables::open::Tables,
};
use ratelimit_protocol::stops::Stop;
use serde::Serialize;

use super::{
    bucket::{BucketRow, rounded_up},
    cause::Cause,
    shares,
};
use crate::cli::print::seen::Seen;

/// Time between two readings of a source that was over its limit before. A source that sends three packets per second
/// too many is found.
const GAP: Duration = Duration::from_millis(300);

/// The answer.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    address: String,
    service: String,
    /// The source that pays: the address, a prefix of it, or the prefix of a rule.
    source: String,
    /// `pass`, `limit` or `drop`.
    verdict: &'static str,
    /// Whether the packets that it drops pass in shadow.
    shadow: bool,
    /// Null if nothing has a say.
    decides: Option<Cause>,
    /// In the order of precedence.
    outranked: Vec<Cause>,
    /// The part of this host's own network with the address, to which no deny, list or ban is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    spared: Option<PlaceRow>,
    /// Whether the rule that decides also denies what is spared.
    #[serde(skip)]
    is_forced: bool,
    /// Services with rules about this address, when none was asked for.
    services: Vec<String>,
    /// Limits of the address for applications, as the daemon knows them.
    pub(super) stops: Vec<Stop>,
    /// What a fleet leaves the source of its limit. Null without a fleet, and if nothing limits the source.
    fleet: Option<shares::Row>,
    /// What the source has used of its limit of packets. Null if nothing has counted it.
    bucket: Option<BucketRow>,
    /// For how long its packets are refused, as far as the source's own limit is concerned. Null if its next packet
    /// passes, and in shadow.
    refused_for_seconds: Option<u64>,
    /// Whether only its own limit can refuse its packets. A wider limit, a fleet and the limit of unknown sources have
    /// a say, too.
    #[serde(skip)]
    has_own_limit_only: bool,
    /// The limit of unknown sources. Null without one, and if a deny, a list, a ban or an allow decides.
    unknown: Option<Unknown>,
    /// Whether the next packet is refused, or one was in this moment.
    refused_now: bool,
    passed: Packets,
    dropped: Packets,
    would_drop: Packets,
    #[serde(flatten)]
    seen: Seen,
}

/// The limit that all unknown sources share.
#[derive(Debug, Serialize)]
struct Unknown {
    per_second: u64,
    /// Whether the source is known, so that it does not share this rate.
    is_known: bool,
}

#[derive(Debug, Serialize)]
struct Packets {
    packets: u64,
    estimated: bool,
}

impl Report {
    pub(super) fn read(tables: &Tables, address: &Prefix, service: Service) -> Result<Self> {
        let services = Services::read(tables)?;
        // A port without rules belongs to a wider service.
        let service_with_rules = match service {
            Service::Ports(transport, first, last) if first == last => services.of_port(transport, first),
            other => other,
        };
        let classes = services.classes(service_with_rules);
        let Decision { source, decides, outranked, spared } = decision::of(tables, address, classes)?;
        let mut others = Vec::new();
        // New connections belong to a service of their own.
        let is_tcp = matches!(service, Service::Protocol(6) | Service::Ports(Transport::Tcp, ..));
        let may_differ = |other: &Service| service == Service::Any || is_tcp && *other == Service::TcpSyn;
        for (other, class) in services.iter().filter(|(other, _)| may_differ(other)) {
            let target = Target::DEFAULT.of(other);
            if !around::around(tables, &source, class)?.is_empty()
                || list::ban_of(tables, &source, class, target)?.is_some()
            {
                others.push(ServiceName(other).to_string());
            }
        }
        let mut key = source;
        key.class = class::key(classes);
        let (counts, control) = (SourceCounts::of(tables)?, tables.control()?);
        let Control { features, .. } = control;
        let (bucket, now) = (counts.tracked(&key)?.unwrap_or_default(), host::now());
        let policy = decides.as_ref().and_then(spec).map(|spec| spec.policy);
        let verdict = decides.as_ref().map_or("pass", verdict);
        let standing = if verdict == "limit" { counts.standing(&source, classes)? } else { Standing::default() };
        // Others may leave room that the limit does not.
        let has_more = policy.is_some_and(|policy| policy.elastic != 0 || policy.soft != 0);
        let by_limit = Some(standing.wait).filter(|wait| !wait.is_zero() && !has_more);
        let refused_for = counts.refused_for(&key).max(by_limit);
        // Cells and buckets do not tell interfaces apart.
        let by_interface = features & FEATURE_SHADOW_PROGRAMS != 0
            && bucket.would_drop().packets != 0
            && bucket.dropped().packets == 0;
        let sampling = Sampling::of(&control);
        let are_estimates = bucket.is_sampled() || sampling.are_refusals_estimates;
        let refused = |Count { packets, .. }| Packets { packets, estimated: are_estimates && packets != 0 };
        let shadow =
            features & FEATURE_SHADOW != 0 || policy.is_some_and(|policy| policy.over_limit == SHADOW) || by_interface;
        let refused_now = verdict == "drop" || refused_for.is_some() || is_refused_now(&counts, &key)?;
        let fleet = if verdict == "limit" { readings::shares::of(tables, &key)?.map(shares::Row::of) } else { None };
        let unknown = gauges::unknown_rate(tables, &control)?
            .filter(|_| verdict != "drop" && policy.is_none_or(|policy| policy.kind != ALLOW))
            .map(|per_second| Unknown { per_second, is_known: counts.is_known(&key) });
        Ok(Self {
            address: address.to_string(),
            service: ServiceName(service).to_string(),
            source: Prefix::of(&source, source.prefix).to_string(),
            verdict,
            shadow,
            decides: decides.as_ref().map(Cause::of),
            outranked: outranked.iter().map(Cause::of).collect(),
            spared: spared.as_ref().map(PlaceRow::from),
            is_forced: policy == Some(Policy::FORCED),
            services: others,
            stops: Vec::new(),
            has_own_limit_only: fleet.is_none()
                && unknown.is_none()
                && decides.as_ref().and_then(spec).is_some_and(|spec| spec.parents.is_empty()),
            fleet,
            bucket: standing.used.map(BucketRow::of),
            refused_for_seconds: refused_for.filter(|_| !shadow).map(rounded_up),
            unknown,
            refused_now,
            passed: Packets { packets: bucket.passed(), estimated: sampling.are_totals_estimates },
            dropped: refused(bucket.dropped()),
            would_drop: refused(bucket.would_drop()),
            seen: Seen::of(&bucket, now, Timestamp::now())?,
        })
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let name =
            if self.service == "any" { self.address.clone() } else { format!("{} {}", self.address, self.service) };
        let verdict = match self.verdict {
            "limit" if self.refused_now && self.shadow => "over its limit",
            "limit" if self.refused_now => "over its limit, so packets are dropped",
            "limit" => "passes up to its limit",
            "drop" => "dropped",
            _ => "passes",
        };
        let shadow = if self.shadow && self.verdict != "pass" { " (in shadow, so every packet passes)" } else { "" };
        // An allow or a deny of the address can decide about its services, too.
        let is_wide = self.verdict == "limit" || self.decides.is_none();
        let others =
            if self.services.is_empty() || !is_wide { "" } else { ", but other rules decide about some services" };
        writeln!(out, "{name}: {verdict}{shadow}{others}")?;
        match &self.decides {
            Some(cause) => writeln!(out, "decides:   {}", cause.text())?,
            None => writeln!(out, "decides:   nothing, there is no default limit")?,
        }
        for cause in &self.outranked {
            writeln!(out, "outranks:  {}", cause.text())?;
        }
        if let Some(place) = &self.spared {
            let what = match self.is_forced {
                true => "it is denied all the same, because the rule was forced",
                false => "no deny, list or ban is applied to it",
            };
            writeln!(out, "spared:    {place}: {what}")?;
        }
        for stop in &self.stops {
            let label = if stop.shadow { "would be stopped: " } else { "stopped:   " };
            writeln!(out, "{label}{}", stopped(stop))?;
        }
        if self.source != self.address {
            writeln!(out, "source:    {}, whose addresses share the limit", self.source)?;
        }
        if let Some(fleet) = &self.fleet {
            writeln!(out, "fleet:     {}", fleet.text())?;
        }
        let counts =
            [(&self.passed, "packets passed"), (&self.dropped, "dropped"), (&self.would_drop, "would be dropped")];
        let counted = |(packets, what): &(&Packets, &str)| {
            let about = if packets.estimated { "about " } else { "" };
            (packets.packets != 0).then(|| format!("{about}{} {what}", packets.packets))
        };
        let counted: Vec<_> = counts.iter().filter_map(counted).collect();
        if !counted.is_empty() {
            writeln!(out, "counted:   {}", counted.join(", "))?;
        }
        if let Some(bucket) = &self.bucket {
            writeln!(out, "bucket:    {}", bucket.text())?;
        }
        let is_sure = self.verdict == "limit" && self.has_own_limit_only;
        if let Some(seconds) = self.refused_for_seconds.filter(|_| is_sure) {
            writeln!(out, "next:      a packet passes in {}", units::write_duration(Duration::from_secs(seconds)))?;
        }
        let [first, last] = self.seen.texts();
        let times = [("first", first), ("last", last)].into_iter().filter(|(_, time)| !time.is_empty());
        let times: Vec<_> = times.map(|(which, time)| format!("{which} {time}")).collect();
        if !times.is_empty() {
            writeln!(out, "seen:      {}", times.join(", "))?;
        }
        if let Some(Unknown { per_second, is_known }) = self.unknown {
            let rate = PacketRate(Rate { amount: per_second, period: SECOND });
            match is_known {
                true => writeln!(out, "known:     yes, so it does not share the {rate} of all unknown sources")?,
                false => writeln!(out, "known:     no, so it shares {rate} with all unknown sources")?,
            }
        }
        if !self.services.is_empty() {
            writeln!(out, "services with rules of their own: {} (ask with --service)", self.services.join(", "))?;
        }
        Ok(())
    }
}

/// Returns whether packets of the source are refused between two readings.
fn is_refused_now(counts: &SourceCounts<'_>, source: &Source) -> Result<bool> {
    let refused = || anyhow::Ok(counts.tracked(source)?.map_or(0, |bucket| bucket.over_limit()));
    let before = refused()?;
    if before == 0 {
        return Ok(false);
    }
    thread::sleep(GAP);
    Ok(refused()? > before)
}

/// Returns a limit of an application in words.
fn stopped(Stop { source, port, since_seconds, left_seconds, times, asker, .. }: &Stop) -> String {
    let [since, left] =
        [since_seconds, left_seconds].map(|seconds| units::write_duration(Duration::from_secs(*seconds)));
    format!("{source} tcp/{port} for {left} from now, since {since} (number {times}): {asker}")
}

/// Returns the limits of a rule or a list.
fn spec(voice: &Voice) -> Option<&RuleSpec> {
    match voice {
        Voice::Rule(rule) => Some(&rule.spec),
        Voice::List(list) => match &list.action {
            Action::Deny => None,
            Action::Limit(spec) => Some(spec),
        },
    }
}

/// Returns what happens to packets that this decides about.
fn verdict(voice: &Voice) -> &'static str {
    let of_policy = |policy: &Policy| match policy.kind {
        ALLOW => "pass",
        LIMIT if policy.has_limits() || policy.has_parents() => "limit",
        LIMIT => "pass",
        _ => "drop",
    };
    match voice {
        Voice::Rule(rule) => of_policy(&rule.spec.policy),
        Voice::List(list) => match &list.action {
            Action::Deny => "drop",
            Action::Limit(spec) => of_policy(&spec.policy),
        },
    }
}
