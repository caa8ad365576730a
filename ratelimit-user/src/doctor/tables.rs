//! Whether the tables have room for what comes.

use std::time::Duration;

use ratelimit_common::{
    maps::control::{FEATURE_FRONT, FEATURE_SHADOW},
    reason::Reason,
};

use super::{
    Check, Finding,
    finding::count,
    instance::{Ours, Running},
    traffic::Window,
};
use crate::{
    dataplane::{Error, readings::gauges, tables::open::Tables},
    units,
};

/// Who is silent for that long is hardly missed: known sources are remembered as long.
const LONG: Duration = Duration::from_secs(600);
/// Packets of which one that could not be judged is worth a warning.
const MANY: u64 = 1_000;

pub(super) fn examine(running: &Running, ours: &Ours, window: &Window) -> Result<Vec<Finding>, Error> {
    let tables = &running.tables;
    let (control, counted) = (tables.control()?, gauges::of_cpus(tables)?);
    let capacity = tables.capacity()?;
    let so_far = gauges::idle_so_far(&control, capacity, counted.admitted);
    let during = window.counted.and_then(|counted| stay(capacity, counted.made, window.time));
    let has_budget = control.features & FEATURE_FRONT != 0;
    let refused = window.counted.map_or(0, |counted| counted.not_admitted);
    let names: Vec<&str> = ours.attachments.iter().map(|attachment| attachment.name.as_str()).collect();
    let attach = format!("ratelimit attach {}", names.join(" "));
    let stay = so_far.into_iter().chain(during).min();
    let mut findings = Vec::new();
    if control.features & FEATURE_SHADOW != 0 {
        let why = "Every packet passes, and is only counted as what would have become of it.";
        findings.push(
            Finding::warning(Check::Shadow, "limits and denies are not enforced", why).mended_by(format!(
                "{} --shadow=off",
                if names.is_empty() { "ratelimit attach IFACE" } else { &attach }
            )),
        );
    }
    findings.push(buckets(tables.buckets_in_use()?, capacity, stay, &attach));
    if has_budget {
        findings.push(admissions(refused, of(tables, Reason::NotAdmitted)?, control.admission.per_second, &attach));
    }
    findings.push(fail_open(tables)?);
    if counted.bans_failed != 0 {
        let what = format!("{} found no room", count(counted.bans_failed, "ban"));
        let why = "The table of bans was full: those sources stay under their limit, and are not shut out.";
        findings.push(Finding::warning(Check::Bans, &what, why).mended_by("ratelimit deny list"));
    }
    Ok(findings)
}

/// Time in which as many buckets are made as there can be.
fn stay(capacity: u32, made: u64, time: Duration) -> Option<Duration> {
    (made != 0).then(|| Duration::from_secs_f64((f64::from(capacity) * time.as_secs_f64() / made as f64).min(3e9)))
}

/// The kernel keeps some free, the more the more CPUs there are. `stay` is how long a silent one stays.
fn buckets(used: usize, capacity: u32, stay: Option<Duration>, attach: &str) -> Finding {
    let what = format!("{used} of {capacity} in use");
    let is_full = used as u64 * 4 >= u64::from(capacity) * 3;
    let stay = stay.filter(|stay| is_full && *stay < LONG);
    let Some(stay) = stay else { return Finding::ok(Check::Buckets, &what) };
    let stay = units::write_duration(Duration::from_secs(stay.as_secs().max(1)));
    let what = format!("{what}, and a silent one stays for about {stay}");
    let why = "The longest silent bucket gives way to each new one: windows, logs and counts of its source begin anew.";
    let mend = format!("{attach} --max-sources {}", u64::from(capacity) * 4);
    Finding::warning(Check::Buckets, &what, why).mended_by(mend)
}

fn admissions(during: u64, ever: u64, per_second: u64, attach: &str) -> Finding {
    let why = "More sources may exceed their limit than buckets are made: who gets none is dropped, also if within its limit.";
    let more = per_second.saturating_mul(4);
    if during != 0 {
        let what = format!("{} just now for want of a bucket (budget: {per_second}/s and CPU)", dropped(during));
        return Finding::warning(Check::Admissions, &what, why).mended_by(format!("{attach} --admissions {more}/s"));
    }
    if ever != 0 {
        let what = format!("{} so far for want of a bucket (budget: {per_second}/s and CPU)", dropped(ever));
        return Finding::note(Check::Admissions, &what, why);
    }
    Finding::ok(Check::Admissions, "no packet was dropped for want of a bucket")
}

fn dropped(packets: u64) -> String {
    format!("{} {} dropped", count(packets, "packet"), if packets == 1 { "was" } else { "were" })
}

/// Packets that passed because nothing could be decided.
fn fail_open(tables: &Tables) -> Result<Finding, Error> {
    let undecided = [Reason::TableFull, Reason::Contended, Reason::NoState];
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
    let what = format!("{} passed undecided so far: {parts}", count(sum, "packet"));
    let why = "Where the program cannot decide, packets pass. So many of them are a hole in the limits.";
    match sum {
        0 => Finding::ok(Check::FailOpen, "every packet was decided"),
        _ if sum > all / MANY => Finding::warning(Check::FailOpen, &what, why).mended_by("ratelimit status -v"),
        _ => Finding::note(Check::FailOpen, &what, "Where the program cannot decide, packets pass. These are few."),
    }
}

fn of(tables: &Tables, wanted: Reason) -> Result<u64, Error> {
    let counts = tables.counts()?;
    Ok(counts.iter().filter(|(reason, _)| *reason == wanted).map(|(_, count)| count.packets).sum())
}

#[cfg(test)]
mod tests {
    use super::{super::Severity, *};

    #[test]
    fn a_full_table_hurts_where_buckets_stay_for_a_short_time() {
        let severity = |used, stay| buckets(used, 1_000, Some(Duration::from_secs(stay)), "").severity;
        assert_eq!(severity(749, 5), Severity::Ok);
        assert_eq!(severity(750, 5), Severity::Warning);
        assert_eq!(severity(1_000, 600), Severity::Ok);
        assert_eq!(buckets(1_000, 1_000, None, "").severity, Severity::Ok);
    }

    #[test]
    fn how_long_a_bucket_stays_follows_from_how_many_are_made() {
        assert_eq!(stay(1_000, 0, Duration::from_secs(1)), None);
        assert_eq!(stay(1_000, 500, Duration::from_secs(1)), Some(Duration::from_secs(2)));
    }

    #[test]
    fn packets_that_were_not_decided_are_worth_a_word_by_their_part() {
        assert_eq!(undecided_of(0, 5_000, "").severity, Severity::Ok);
        assert_eq!(undecided_of(5, 5_000, "5 contended").severity, Severity::Note);
        let finding = undecided_of(6, 5_000, "2 table-full, 4 contended");
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.what, "6 packets passed undecided so far: 2 table-full, 4 contended");
    }

    #[test]
    fn a_budget_that_is_spent_just_now_hurts_and_one_that_was_is_told() {
        assert_eq!(admissions(0, 0, 10, "").severity, Severity::Ok);
        assert_eq!(
            admissions(0, 1, 10, "").what,
            "1 packet was dropped so far for want of a bucket (budget: 10/s and CPU)"
        );
        let finding = admissions(7, 9, 10, "ratelimit attach eth0");
        assert_eq!(
            (finding.severity, finding.mend.as_deref()),
            (Severity::Warning, Some("ratelimit attach eth0 --admissions 40/s"))
        );
    }
}
