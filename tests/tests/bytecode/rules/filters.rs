//! The filters of sources that a rule may match: the program looks rules up for few other sources.

use std::net::{Ipv4Addr, Ipv6Addr};

use ratelimit_common::{
    identity::{fine_filter::FEW_RULES, source::Source},
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    reason::Reason,
};
use ratelimit_dataplane::{lists::action::Action, program::loader::Settings, rules::filter};
use ratelimit_tests::{Bytecode, Frame, Walker};

use super::lists::{apply, list, load};
use crate::front::{Front, with_and_without_cells};

/// Entries of each family.
const LISTED: u64 = 60_000;

/// The list marks nearly every group of the first filter.
fn a_long_list_concerns_few_sources_that_it_does_not_contain(front: Front) {
    let mut bytecode = load(front);
    let entries: Vec<_> =
        (0..LISTED).map(scattered).flat_map(|(v4, v6)| [v4.to_string(), format!("{v6}/64")]).collect();
    let entries: Vec<_> = entries.iter().map(String::as_str).collect();
    apply(&mut bytecode.tables, vec![list("bans", &entries, Action::Deny)], &[]);
    let filters = bytecode.filters();
    // Of 2,000 sources of each family.
    let concerned = |first: u64| {
        let sources: Vec<_> = (first..first + LISTED).step_by(30).map(scattered).collect();
        let v4 = sources.iter().filter(|(v4, _)| filters(&Source::v4(v4.octets())) == [true; 2]).count();
        let v6 = sources.iter().filter(|(_, v6)| filters(&Source::v6(v6.octets(), 64)) == [true; 2]).count();
        [v4, v6]
    };
    assert_eq!(concerned(0), [2_000; 2]);
    let others = concerned(LISTED);
    assert!(others.iter().all(|count| *count < 60), "{others:?}");
}

/// Returns an address of each family in a place that depends on all bits of the number.
fn scattered(number: u64) -> (Ipv4Addr, Ipv6Addr) {
    let place = Walker::draw(number);
    let first = place & u64::MAX >> 3 | 1 << 61;
    (Ipv4Addr::from_bits(place as u32), Ipv6Addr::from_bits(u128::from(first) << 64))
}

/// Without cells, a source that no rule may match has a sliding log and no bucket. So the map of buckets tells for which
/// sources the program looks rules up.
#[test]
fn with_many_rules_the_program_looks_rules_up_for_sources_in_the_small_group_of_a_rule() {
    let (v4, v6) = (Ipv4Addr::new(198, 51, 100, 8), Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 8));
    for (frame, source, elsewhere, in_group) in [
        (Frame::udp(v4, 9), Source::v4(v4.octets()), "198.51.100.7", "198.51.100.0/30"),
        (Frame::udp(v6, 9), Source::v6(v6.octets(), 64), "2001:db8:1::/64", "2001:db8:0:2::/64"),
    ] {
        let frame = frame.bytes();
        let settings = Settings { logs: true, sliding_logs: 1 << 10, cells: 0, ..crate::settings() };
        let mut bytecode = Bytecode::with(settings);
        bytecode.set_time(SECOND);
        let packets = Some(Rate { amount: 50, period: SECOND });
        let limit = Limit { packets, algorithm: Algorithm::SlidingLog, ..Limit::default() };
        bytecode.set("default", limit.policy().unwrap());
        let looks_up = |bytecode: &mut Bytecode| {
            bytecode.forget();
            assert_eq!(bytecode.reason(&frame), Reason::WithinLimit, "{source:?}");
            bytecode.bucket(source).is_some()
        };
        assert!(!looks_up(&mut bytecode));
        bytecode.set(elsewhere, Policy::DENIED);
        assert_eq!(bytecode.filters()(&source), [true, false], "{elsewhere}");
        assert!(looks_up(&mut bytecode), "{elsewhere} is one of few rules");
        let others: Vec<_> =
            (0..FEW_RULES as u32).map(|number| Source::v4((10 << 24 | number).to_be_bytes())).collect();
        filter::add(&mut bytecode.tables, others.iter()).unwrap();
        assert!(!looks_up(&mut bytecode), "{elsewhere}");
        bytecode.set(in_group, Policy::DENIED);
        assert_eq!(bytecode.filters()(&source), [true; 2], "{in_group}");
        assert!(looks_up(&mut bytecode), "{in_group}");
        // Rebuilt from the two rules, of which the first filter is enough.
        filter::renew(&mut bytecode.tables).unwrap();
        bytecode.delete(in_group);
        assert!(looks_up(&mut bytecode), "{elsewhere} is one of few rules again");
    }
}

with_and_without_cells!(a_long_list_concerns_few_sources_that_it_does_not_contain);
