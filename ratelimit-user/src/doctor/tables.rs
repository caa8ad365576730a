//! Checks whether the tables are large enough.

use std::{cmp::Reverse, time::Duration};

use ratelimit_base::text::units;
use ratelimit_common::{
    identity::{class::ANY, source::IPV6},
    limits::policy::LIMIT,
    maps::control::FEATURE_SHADOW,
    reason::Reason,
};
use ratelimit_dataplane::{
    Error,
    readings::{gauges, tracked},
    rules::{
        policies,
        spec::{ParentLimit, Scope},
    },
    tables::open::Tables,
};

use super::{
    cells::{self, Cells},
    finding::{Check, Finding, count},
    instance::Running,
    traffic::Window,
};

/// An unused bucket that stays this long is sufficient. Known sources stay as long.
const LONG: Duration = Duration::from_secs(600);
/// Bits of the shortest IPv6 prefix that one line usually has (RIPE-690).
const LINE: u32 = 48;
/// Bits of the longest one.
const LONGEST_LINE: u32 = 56;
/// One undecided packet in more than this number is no warning.
const MANY: u64 = 1_000;

pub(super) fn examine(running: &Running, window: &Window) -> Result<Vec<Finding>, Error> {
    let tables = &running.tables;
    let (control, counted) = (tables.control()?, gauges::of_cpus(tables)?);
    let max_sources = gauges::max_sources(tables)?;
    let so_far = gauges::idle_so_far(&control, max_sources, counted.admitted);
    let during = window.counted.and_then(|counted| stay(max_sources, counted.created, window.time));
    let refused = window.counted.map_or(0, |counted| counted.not_admitted);
    let stay = so_far.into_iter().chain(during).min();
    let mut findings = Vec::new();
    if control.features & FEATURE_SHADOW != 0 {
        let why = "Shadow mode is on: every packet passes, and drops are only counted.";
        findings.push(
            Finding::warning(Check::Shadow, "limits and denies are not enforced", why)
                .fixed_by("ratelimit set --shadow off"),
        );
    }
    findings.push(buckets(tracked::buckets_in_use(tables)?, max_sources, stay));
    if let Some(cells) = Cells::read(tables, &control)? {
        findings.push(admissions(
            refused,
            gauges::packets_of(tables, Reason::NotAdmitted)?,
            control.admission.per_second,
            cells.fix_if_short(),
        ));
        findings.extend(cells::examine(tables, &control, &cells)?);
    }
    findings.push(fail_open(tables)?);
    if counted.bans_failed != 0 {
        let what = format!("{} did not fit", count(counted.bans_failed, "ban"));
        let why = "The table of bans was full. These sources are limited, but not banned.";
        findings.push(Finding::warning(Check::Bans, &what, why).fixed_by("ratelimit deny list"));
    }
    findings.extend(ipv6_lines(tables, control.ipv6_prefix)?);
    Ok(findings)
}

/// Returns the time in which as many buckets are created as fit.
fn stay(max_sources: u32, created: u64, time: Duration) -> Option<Duration> {
    (created != 0)
        .then(|| Duration::from_secs_f64((f64::from(max_sources) * time.as_secs_f64() / created as f64).min(3e9)))
}

/// Returns the finding about buckets. The kernel keeps some free, more with more CPUs. `stay` is the time that an
/// unused one stays.
fn buckets(used: usize, max_sources: u32, stay: Option<Duration>) -> Finding {
    let what = format!("{used} of {max_sources} in use");
    let is_full = used as u64 * 4 >= u64::from(max_sources) * 3;
    let stay = stay.filter(|stay| is_full && *stay < LONG);
    let Some(stay) = stay else { return Finding::ok(Check::Buckets, &what) };
    let stay = units::write_duration(Duration::from_secs(stay.as_secs().max(1)));
    let what = format!("{what}, and an unused one stays for about {stay}");
    let why = "Each new bucket replaces the one that was unused for longest. Windows, sliding logs and counters of that source start again.";
    let fix = format!("ratelimit set --max-sources {}", u64::from(max_sources) * 4);
    Finding::warning(Check::Buckets, &what, why).fixed_by(fix)
}

/// More buckets help less than cells, if these are short.
fn admissions(during: u64, ever: u64, per_second: u64, more_cells: Option<String>) -> Finding {
    let why = "More sources need a bucket than the budget allows. Their packets are dropped, even within their limit.";
    let more = per_second.saturating_mul(4);
    if during != 0 {
        let what = format!(
            "{} just now, because the budget for new buckets is spent ({per_second}/s per CPU)",
            dropped(during)
        );
        return Finding::warning(Check::Admissions, &what, why)
            .fixed_by(more_cells.unwrap_or_else(|| format!("ratelimit set --admissions {more}/s")));
    }
    if ever != 0 {
        let what =
            format!("{} so far, because the budget for new buckets was spent ({per_second}/s per CPU)", dropped(ever));
        let note = Finding::note(Check::Admissions, &what, why);
        return more_cells.into_iter().fold(note, Finding::fixed_by);
    }
    Finding::ok(Check::Admissions, "the budget for new buckets was never spent")
}

/// Returns the finding about a default that limits each IPv6 source, if there is one.
fn ipv6_lines(tables: &Tables, ipv6_prefix: u32) -> Result<Option<Finding>, Error> {
    let default = policies::spec(tables, tables.default_policy(ANY)?)?;
    // Without a rate, nothing is limited.
    let given = default.policy.given;
    let is_limit = default.policy.kind == LIMIT && (given.packets != 0 || given.second != 0);
    if !is_limit || ipv6_prefix <= LINE {
        return Ok(None);
    }
    let is_of_line = |parent: &ParentLimit| match parent.scope {
        Scope::Prefix(family, Reverse(bits)) => family == IPV6 && (LINE..=LONGEST_LINE).contains(&u32::from(bits)),
        _ => false,
    };
    if default.parents.iter().any(is_of_line) {
        return Ok(Some(Finding::ok(Check::Ipv6Lines, "the default has a wider limit for IPv6 lines")));
    }
    let what = format!("the default limits each IPv6 /{ipv6_prefix}, and has no wider limit for a line");
    let why = "One line often has a /56 or a /48, and so many sources. `--parent /48=RATE` on the default limits them together.";
    Ok(Some(Finding::note(Check::Ipv6Lines, &what, why)))
}

fn dropped(packets: u64) -> String {
    format!("{} {} dropped", count(packets, "packet"), if packets == 1 { "was" } else { "were" })
}

/// Returns the finding about packets that passed because the program could not decide.
fn fail_open(tables: &Tables) -> Result<Finding, Error> {
    let undecided = [Reason::TableFull, Reason::NoState];
    let mut parts = Vec::new();
    let (mut sum, mut all) = (0, 0);
    for (reason, counted) in tables.counts()? {
        all += counted.packets;
        if undecided.contains(&reason) && counted.packets != 0 {
            sum += counted.packets;
            parts.push(format!("{} {}", counted.packets, reason.name()));
        }
    }
    Ok(undecided_of(sum, all, &parts.join(", ")))
}

fn undecided_of(sum: u64, all: u64, parts: &str) -> Finding {
    let what = format!("{} passed without a decision so far: {parts}", count(sum, "packet"));
    let why = "If the program cannot decide, packets pass. So many of them weaken the limits.";
    match sum {
        0 => Finding::ok(Check::FailOpen, "the program decided about every packet"),
        _ if sum > all / MANY => Finding::warning(Check::FailOpen, &what, why).fixed_by("ratelimit status -v"),
        _ => Finding::note(Check::FailOpen, &what, "If the program cannot decide, packets pass. These are few."),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Severity, *};

    #[test]
    fn a_full_table_is_a_warning_if_buckets_stay_for_a_short_time() {
        let severity = |used, stay| buckets(used, 1_000, Some(Duration::from_secs(stay))).severity;
        assert_eq!(severity(749, 5), Severity::Ok);
        assert_eq!(severity(750, 5), Severity::Warning);
        assert_eq!(severity(1_000, 600), Severity::Ok);
        assert_eq!(buckets(1_000, 1_000, None).severity, Severity::Ok);
    }

    #[test]
    fn the_time_that_a_bucket_stays_follows_from_the_rate_of_new_ones() {
        assert_eq!(stay(1_000, 0, Duration::from_secs(1)), None);
        assert_eq!(stay(1_000, 500, Duration::from_secs(1)), Some(Duration::from_secs(2)));
    }

    #[test]
    fn the_severity_of_undecided_packets_depends_on_their_share() {
        assert_eq!(undecided_of(0, 5_000, "").severity, Severity::Ok);
        assert_eq!(undecided_of(5, 5_000, "5 no-state").severity, Severity::Note);
        let finding = undecided_of(6, 5_000, "2 table-full, 4 no-state");
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.what, "6 packets passed without a decision so far: 2 table-full, 4 no-state");
    }

    #[test]
    fn a_budget_spent_now_is_a_warning_and_one_spent_before_is_a_note() {
        assert_eq!(admissions(0, 0, 10, None).severity, Severity::Ok);
        assert_eq!(
            admissions(0, 1, 10, None).what,
            "1 packet was dropped so far, because the budget for new buckets was spent (10/s per CPU)"
        );
        let finding = admissions(7, 9, 10, None);
        assert_eq!(
            (finding.severity, finding.fix.as_deref()),
            (Severity::Warning, Some("ratelimit set --admissions 40/s"))
        );
        let cells = "ratelimit set --cells 64";
        for during in [0, 7] {
            assert_eq!(admissions(during, 9, 10, Some(cells.to_owned())).fix.as_deref(), Some(cells));
        }
    }
}
