//! The table of bans: places are free when bans end, without any command, and bans in force never give way.

use std::{
    collections::{HashMap, HashSet},
    sync::Barrier,
    thread,
};

use ratelimit_common::{
    identity::{service::Service, service::Transport, source::Source},
    limits::{
        limit::SECOND,
        policy::{BANNED_ID, Policy},
    },
    maps::names::BANS_MAX,
    reason::Reason,
    rules::{ban, rule::Rule},
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::{batch, resolve, services::Services},
};
use ratelimit_tests::{Bytecode, Frame, Order, Sources, Verdict, Walker, per_second};

use super::{ADDRESS, BAN, TEN_MINUTES, exceed, frame};
use crate::front::{Front, with_and_without_cells};

/// Sources that are banned at the same time.
const CROWD: u32 = 1 << 15;

/// Loads a limit of five packets per second with a ban of ten minutes, without a budget for new buckets.
fn load(front: Front) -> Bytecode {
    load_with(Settings { services: true, sample: false, ..front.settings() })
}

fn load_with(settings: Settings) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { bans: true, buckets: 1 << 18, ..settings });
    bytecode.set_time(SECOND);
    bytecode.set_admissions(u64::MAX);
    bytecode.set("default", Policy { ban: BAN, ..per_second(5, 5) });
    bytecode
}

/// Returns the banned sources at this time.
fn banned(bytecode: &Bytecode, now: u64) -> HashMap<Source, Rule> {
    bytecode.tables.bans().unwrap().all().into_iter().filter(|(_, ban)| now < ban.expires).collect()
}

fn bans_failed(bytecode: &Bytecode) -> u64 {
    bytecode.cpus().iter().map(|cpu| cpu.bans_failed).sum()
}

/// Bans other sources until `expires`. Returns how many have found a place.
fn ban_others(bytecode: &Bytecode, others: impl Iterator<Item = Source>, expires: u64) -> usize {
    let bans = bytecode.tables.bans().unwrap();
    others.filter(|source| bans.insert(source, expires, SECOND)).count()
}

/// Returns other sources without end.
fn others() -> impl Iterator<Item = Source> {
    (0x0b00_0000_u32..).map(|number| Source::v4(number.to_be_bytes()))
}

/// Loads the same limit with so many cells that few of the crowd share one. A source is not banned for its neighbours.
/// Returns also the share of the crowd that must be banned.
fn load_for_crowd(front: Front) -> (Bytecode, f64) {
    let (cells, share) = if front.is_on() { (1 << 20, 0.95) } else { (0, 1.0) };
    (load_with(Settings { cells, ..front.settings() }), share)
}

/// No command runs between the rounds. The places of ended bans take the bans of other sources.
fn any_number_of_bans_fits_over_time(front: Front) {
    let (mut bytecode, share) = load_for_crowd(front);
    for round in 0..3 {
        let now = SECOND + u64::from(round) * 2 * TEN_MINUTES;
        bytecode.set_time(now);
        let mut walker = Walker::new(9, round * CROWD);
        walker.lead_to(bytecode.program());
        walker.run(Sources::Count(CROWD), Order::InTurn, 8 * CROWD);
        let banned = banned(&bytecode, now);
        let expected: HashSet<_> =
            (0..CROWD).map(|number| Source::v4(Walker::source(round * CROWD + number).octets())).collect();
        let least = (expected.len() as f64 * share) as usize;
        assert!(
            banned.len() >= least,
            "round {round}: {} are banned, {} are not",
            banned.len(),
            bans_failed(&bytecode)
        );
        assert_eq!(bans_failed(&bytecode), 0, "round {round}");
        assert!(banned.keys().all(|source| expected.contains(source)), "round {round}");
        assert!(banned.values().all(|ban| ban.policy == BANNED_ID && ban.expires == now + TEN_MINUTES));
    }
}

/// A source in the same IPv4 /16 as an offender is decided by its cell, without a lookup of rules and without a bucket.
#[test]
fn a_ban_costs_no_neighbour_a_bucket_neither_while_it_lasts_nor_later() {
    let bytecode = load(Front::On);
    exceed(&bytecode, ADDRESS);
    let created = || bytecode.cpus().iter().map(|cpu| cpu.admitted).sum::<u64>();
    let before = created();
    for (host, seconds) in [(7, 60), (8, 599), (9, 601), (10, 6_000)] {
        let mut clock = bytecode.clock();
        clock.advance(SECOND + seconds * SECOND - bytecode.tables.control().unwrap().clock);
        let neighbour = [192, 0, 2, host];
        assert_eq!(bytecode.reason(&frame(neighbour)), Reason::WithinLimit, "{seconds} s");
        assert_eq!(bytecode.bucket(Source::v4(neighbour)), None, "{seconds} s");
    }
    assert_eq!(created(), before);
}

/// A ban goes into the second set of its source while the first one has more bans.
fn a_ban_in_the_second_set_is_enforced_listed_and_lifted(front: Front) {
    let mut bytecode = load(front);
    let seed = bytecode.tables.control().unwrap().seed;
    let sets = |source: &Source| ban::sets(source.hash(&seed));
    let [first, second] = sets(&Source::v4(ADDRESS));
    let other = others().find(|source| sets(source)[0] == first && sets(source)[1] != second);
    assert_eq!(ban_others(&bytecode, other.into_iter(), u64::MAX), 1);
    exceed(&bytecode, ADDRESS);
    for seconds in [2, 599] {
        bytecode.set_time(SECOND + seconds * SECOND);
        assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned, "{seconds} s");
    }
    let ban = bytecode.tables.ban(&Source::v4(ADDRESS)).unwrap().unwrap();
    assert_eq!(ban.expires, SECOND + TEN_MINUTES);
    assert_eq!(bytecode.tables.bans().unwrap().all().len(), 2);
    batch::lift_ban(&mut bytecode.tables, "192.0.2.1".parse().unwrap()).unwrap();
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::WithinLimit);
    assert_eq!(bytecode.tables.ban(&Source::v4(ADDRESS)).unwrap(), None);
}

/// Without a place for a ban, the program counts that, and the limit still holds.
fn with_no_place_for_a_ban_the_limit_holds_and_no_ban_gives_way(front: Front) {
    let mut bytecode = load(front);
    // Many more than there are places, so that every set is full.
    let fitted = ban_others(&bytecode, others().take(4 * BANS_MAX as usize), SECOND + TEN_MINUTES);
    assert_eq!(fitted, BANS_MAX as usize);
    let before = banned(&bytecode, SECOND);
    assert_eq!(before.len(), fitted);
    exceed(&bytecode, ADDRESS);
    assert_eq!(bans_failed(&bytecode), 1);
    bytecode.set_time(2 * SECOND);
    let passed =
        [0; 8].map(|_| bytecode.send(&frame(ADDRESS))).iter().filter(|verdict| **verdict == Verdict::Pass).count();
    assert_eq!((passed, bytecode.count(Reason::Banned)), (5, 0));
    assert_eq!(banned(&bytecode, 2 * SECOND), before);
    // The places are free when these bans end.
    bytecode.set_time(SECOND + TEN_MINUTES);
    exceed(&bytecode, ADDRESS);
    bytecode.set_time(2 * SECOND + TEN_MINUTES);
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned);
}

/// The CPUs take places of the same sets at the same time.
fn sources_that_two_cpus_ban_at_the_same_time_are_all_banned_and_listed_once(front: Front) {
    const RACERS: u32 = 1 << 12;
    let (bytecode, share) = load_for_crowd(front);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut walker = Walker::new(9, 0);
                walker.lead_to(bytecode.program());
                start.wait();
                walker.run(Sources::Count(RACERS), Order::InTurn, 16 * RACERS);
            });
        }
    });
    let all = bytecode.tables.bans().unwrap().all();
    let listed: HashSet<Source> = all.iter().map(|(source, _)| *source).collect();
    let expected: HashSet<Source> = (0..RACERS).map(|number| Source::v4(Walker::source(number).octets())).collect();
    assert_eq!((all.len(), bans_failed(&bytecode)), (listed.len(), 0));
    assert!(listed.len() >= (expected.len() as f64 * share) as usize, "{} are banned", listed.len());
    assert!(listed.is_subset(&expected));
}

/// The ban of a service stays when the default that set it is deleted, as long as another rule names the service. Other
/// packets of the source pass.
fn a_ban_outlasts_the_default_of_its_service(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default", per_second(1_000, 1_000));
    bytecode.set("default udp/53", Policy { ban: BAN, ..per_second(5, 5) });
    bytecode.set("10.0.0.0/8 udp/53", per_second(7, 7));
    let dns = Frame::udp(ADDRESS, 53).bytes();
    while bytecode.send(&dns) == Verdict::Pass {}
    bytecode.delete("default udp/53");
    for seconds in [30, 31, 599] {
        bytecode.set_time(SECOND + seconds * SECOND);
        assert_eq!(bytecode.reason(&dns), Reason::Banned, "{seconds} s");
        assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::WithinLimit, "{seconds} s");
    }
    let services = Services::read(&bytecode.tables).unwrap();
    let classes = services.classes(Service::port(Transport::Udp, 53));
    let ban = bytecode.tables.bans().unwrap().all()[0].1;
    // The user side goes by the kernel's clock.
    if ratelimit_dataplane::sys::host::now() < ban.expires {
        let spec = resolve::of_address(&bytecode.tables, &"192.0.2.1".parse().unwrap(), classes).unwrap();
        assert_eq!(spec.policy, Policy::BANNED);
    }
    bytecode.set_time(SECOND + TEN_MINUTES);
    assert_eq!(bytecode.reason(&dns), Reason::WithinLimit);
}

with_and_without_cells!(
    any_number_of_bans_fits_over_time,
    a_ban_in_the_second_set_is_enforced_listed_and_lifted,
    with_no_place_for_a_ban_the_limit_holds_and_no_ban_gives_way,
    sources_that_two_cpus_ban_at_the_same_time_are_all_banned_and_listed_once,
    a_ban_outlasts_the_default_of_its_service,
);
