use clap::{Args as _, Command, FromArgMatches as _};
use proptest::{prelude::*, sample::select};

use super::*;

/// Values of each option.
const OPTIONS: [(&str, &[&str]); 10] = [
    ("packets", &["1000/s", "10/m", "50/h", "10/m,500/h", "off"]),
    ("bytes", &["1MB/s", "500kB/s", "off"]),
    ("burst", &["20", "1000", "auto"]),
    ("algorithm", &["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"]),
    ("throttle", &["hard", "soft=10%", "elastic"]),
    ("over-limit", &["drop", "reject", "shadow"]),
    ("ban", &["10m", "1h", "off"]),
    ("ban-after", &["1", "5"]),
    ("ban-cap", &["10m", "8h", "2d"]),
    ("parent", &["/24=20k/s", "all=500k/s,1GB/s", "all=1M/s", "interface=1GB/s", "all=off", "off"]),
];

fn parsed(words: &[String]) -> Rates {
    let command = Rates::augment_args(Command::new("").no_binary_name(true));
    Rates::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
}

fn rates(words: &str) -> Rates {
    parsed(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

/// Options of a limit. Each option is given with this probability.
fn some(given: f64) -> impl Strategy<Value = Rates> {
    let option = move |(name, values): (&'static str, &'static [&'static str])| {
        prop::option::weighted(given, select(values))
            .prop_map(move |value| value.map(|value| format!("--{name}={value}")))
    };
    OPTIONS.map(option).to_vec().prop_map(|words| parsed(&words.into_iter().flatten().collect::<Vec<_>>()))
}

/// Valid limits.
fn limits() -> impl Strategy<Value = RuleSpec> {
    some(0.35).prop_filter_map("not valid", |rates| valid(&rates, Sources::Default).ok())
}

fn changed(limit: &RuleSpec, given: &Rates) -> Result<RuleSpec> {
    merge(Some(limit), given, Sources::Default, "--replace")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_options_of_a_limit_make_the_same_limit(limit in limits()) {
        prop_assert_eq!(of(&limit).some_terms(Sources::Default).unwrap(), limit);
    }

    #[test]
    fn options_that_are_not_given_are_kept_and_given_ones_are_in_force(limit in limits(), given in some(0.2)) {
        let Ok(merged) = changed(&limit, &given) else { return Ok(()) };
        let (before, after) = (of(&limit), of(&merged));
        let kept = |is_given: bool, is_same: bool| is_given || is_same;
        prop_assert!(kept(!given.packets.is_empty(), before.packets == after.packets));
        prop_assert!(kept(given.bytes.is_some(), before.bytes == after.bytes));
        // A kept burst can be the default of the new rate.
        prop_assert!(kept(given.burst.is_some() || before.burst.is_none(),
            before.burst.and_then(OrOff::value) == Some(merged.policy.given.burst)));
        prop_assert!(kept(given.algorithm.is_some(), before.algorithm == after.algorithm));
        let alone = given.some_terms(Sources::Default);
        if let Ok(alone) = alone {
            let alone = of(&alone);
            prop_assert!(kept(given.packets.is_empty(), alone.packets == after.packets));
            prop_assert!(kept(given.bytes.is_none(), alone.bytes == after.bytes));
            prop_assert!(kept(given.algorithm.is_none(), alone.algorithm == after.algorithm));
            for parent in &alone.parents {
                prop_assert!(after.parents.contains(parent));
            }
        }
        if given.parents.is_empty() {
            prop_assert_eq!(&limit.parents, &merged.parents);
        }
        if given.excess == rates("").excess {
            prop_assert_eq!(limit.policy.ban, merged.policy.ban);
            prop_assert_eq!((limit.policy.soft, limit.policy.elastic), (merged.policy.soft, merged.policy.elastic));
            prop_assert_eq!(limit.policy.over_limit, merged.policy.over_limit);
        }
    }

    #[test]
    fn the_same_options_again_change_nothing(limit in limits(), given in some(0.2)) {
        let Ok(once) = changed(&limit, &given) else { return Ok(()) };
        prop_assert_eq!(changed(&once, &given).unwrap(), once);
    }

    #[test]
    fn without_a_limit_the_options_make_a_new_one(given in some(0.4)) {
        let (fresh, allowed) = (given.some_terms(Sources::Default).ok(), Policy::ALLOWED.into());
        prop_assert_eq!(merge(None, &given, Sources::Default, "").ok(), fresh.clone());
        prop_assert_eq!(merge(Some(&allowed), &given, Sources::Default, "").ok(), fresh);
    }
}

#[test]
fn each_option_is_changed_alone() {
    let limit = "--packets 1000/s --bytes 1MB/s --burst 50 --over-limit reject --ban 10m --ban-after 3 --ban-cap 1d";
    let limit = rates(limit).some_terms(Sources::Default).unwrap();
    for (given, expected) in [
        ("--packets 5/s", "5/s, 1MB/s per source, burst 50, reject, ban 10m after 3 up to 1d"),
        ("--bytes off", "1000/s per source, burst 50, reject, ban 10m after 3 up to 1d"),
        ("--burst auto", "1000/s, 1MB/s per source, burst 1000, reject, ban 10m after 3 up to 1d"),
        ("--over-limit drop", "1000/s, 1MB/s per source, burst 50, ban 10m after 3 up to 1d"),
        ("--ban 20m", "1000/s, 1MB/s per source, burst 50, reject, ban 20m after 3 up to 1d"),
        ("--ban-after 1", "1000/s, 1MB/s per source, burst 50, reject, ban 10m up to 1d"),
        ("--ban off", "1000/s, 1MB/s per source, burst 50, reject"),
    ] {
        let merged = changed(&limit, &rates(given)).unwrap();
        assert_eq!(write::limit(&merged), expected, "{given}");
    }
    let limit = rates("--packets 10/s --parent all=500k/s --parent /24=1k/s").some_terms(Sources::Default).unwrap();
    for (given, expected) in [
        ("--packets 20/s", "20/s per source, burst 20; parents /24=1000/s, all=500k/s"),
        ("--parent all=1M/s", "10/s per source, burst 10; parents /24=1000/s, all=1M/s"),
        ("--parent all=off", "10/s per source, burst 10; parents /24=1000/s"),
        ("--parent off", "10/s per source, burst 10"),
        ("--parent off --parent interface=1M/s", "10/s per source, burst 10; parents interface=1M/s"),
        ("--packets off", "no limit per source; parents /24=1000/s, all=500k/s"),
    ] {
        assert_eq!(write::limit(&changed(&limit, &rates(given)).unwrap()), expected, "{given}");
    }
}

#[test]
fn a_message_names_what_the_limit_keeps() {
    for (before, given, expected) in [
        (
            "--packets 10/s --burst 50",
            "--algorithm sliding-log",
            "The limit keeps --burst 50: --burst auto takes it away, --replace starts anew",
        ),
        ("--packets 10/s --ban 10m", "--parent all=1M/s", "The limit keeps --ban 10m: --ban off takes it away"),
        ("--packets 10/s --bytes 1MB/s", "--packets 10/m,50/h", "The limit keeps --bytes 1MB/s: --bytes off takes"),
        ("--packets 10/s --ban 1h --ban-cap 2h", "--ban 3h", "The limit keeps --ban-cap 2h: another --ban-cap"),
        (
            "--packets 10/s --parent all=1M/s --parent interface=1M/s",
            "--parent /24=100/s",
            "The limit keeps --parent interface=1M/s and --parent all=1M/s",
        ),
        ("--packets 10/s", "--packets off", "nothing would be left of the limit: `ratelimit limit del` deletes it"),
    ] {
        let limit = rates(before).some_terms(Sources::Default).unwrap();
        let error = changed(&limit, &rates(given)).unwrap_err().to_string();
        assert!(error.contains(expected), "{before}, then {given}: {error}");
        assert_eq!(error.lines().count(), 1);
    }
    // What is wrong with the given options alone is told alone.
    let limit = rates("--packets 10/s --ban 10m").some_terms(Sources::Default).unwrap();
    let error = changed(&limit, &rates("--packets 5/s,6/s,7/s")).unwrap_err().to_string();
    assert_eq!(error, "a source has at most two limits: give --packets one or two rates");
}

#[test]
fn the_name_of_a_policy_stays_with_equal_limits_only() {
    let limit = rates("--packets 10/s").some_terms(Sources::Default).unwrap();
    let name = ratelimit_common::limits::policy::Name::new("web").unwrap();
    let limit = RuleSpec { policy: Policy { name, ..limit.policy }, ..limit };
    assert_eq!(changed(&limit, &rates("--packets 10/s")).unwrap().name(), Some("web"));
    assert_eq!(changed(&limit, &rates("--packets 11/s")).unwrap().name(), None);
}
