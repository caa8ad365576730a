//! Tracked sources that are read within a budget of CPU time.

use std::{collections::HashSet, time::Duration};

use ratelimit_common::identity::source::Source;
use ratelimit_dataplane::readings::{
    tracked,
    worst::{Search, by_drops},
};
use ratelimit_tests::{Bytecode, per_second};

use crate::{
    front::Front,
    meters::{frame, source},
};

const SOURCES: u32 = 5_000;

fn with_sources() -> Bytecode {
    let mut bytecode = Bytecode::with(Front::Off.settings());
    bytecode.set("default", per_second(1, 1));
    for number in 0..SOURCES {
        bytecode.repeat(&frame(source(number)), 1 + number % 3);
    }
    bytecode
}

#[test]
fn with_enough_time_each_source_is_read_once_wherever_the_reading_begins() {
    let bytecode = with_sources();
    for _ in 0..50 {
        let mut seen = Vec::new();
        let part = tracked::within(&bytecode.tables, Duration::from_mins(1), |source, _| seen.push(source)).unwrap();
        let different: HashSet<Source> = seen.iter().copied().collect();
        assert_eq!((part, seen.len(), different.len()), (1.0, SOURCES as usize, SOURCES as usize));
    }
}

#[test]
fn without_time_a_part_is_read_and_says_how_many_there_are() {
    let bytecode = with_sources();
    let mut estimates = 0;
    for _ in 0..50 {
        let search = Search { most: 3, budget: Some(Duration::ZERO), rank: by_drops, is_wanted: |_: &Source| true };
        let found = search.find(&bytecode.tables).unwrap();
        assert!(found.part > 0.0 && found.part < 1.0 && found.tracked > 0, "{found:?}");
        assert_eq!(found.sources.len(), 3);
        estimates += found.of_all(found.tracked);
    }
    // One reading has some hundred sources, so the mean of all is close.
    let mean = estimates / 50;
    assert!((4_000..6_000).contains(&mean), "{mean}");
}

#[test]
fn the_worst_sources_have_the_most_drops_and_those_with_one_packet_are_counted() {
    let bytecode = with_sources();
    let search = Search { most: 10, budget: None, rank: by_drops, is_wanted: |_: &Source| true };
    let found = search.find(&bytecode.tables).unwrap();
    assert!(found.sources.iter().all(|(_, bucket)| bucket.over_limit() == 2), "{:?}", found.sources);
    assert_eq!((found.tracked, found.seen_once), (SOURCES as usize, SOURCES.div_ceil(3) as usize));
}
