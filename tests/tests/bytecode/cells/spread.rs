//! Distribution of sources over cells.

use ratelimit_common::{cells::cell, identity::source::Source};
use ratelimit_tests::{Bytecode, Walker};

const CELLS: u32 = 4_096;
const SOURCES: u32 = 1 << 16;

/// Returns a consecutive IPv4 address and a consecutive /64 of IPv6.
fn in_a_row(number: u32) -> [Source; 2] {
    let v6 = (0x2001_0db8_0000_0000_u128 | u128::from(number)) << 64;
    [Source::v4((0x0a00_0000 | number).to_be_bytes()), Source::v6(v6.to_be_bytes(), 64)]
}

fn cells(seed: &[u64; 4], family: usize) -> Vec<u32> {
    (0..SOURCES).map(|number| cell::index(in_a_row(number)[family].hash(seed), CELLS)).collect()
}

/// Returns the chi-square statistic against an even distribution. Random placement gives the number of cells, with a
/// standard deviation of 90.
fn unevenness(cells: &[u32]) -> f64 {
    let mut counts = vec![0u32; CELLS as usize];
    for cell in cells {
        counts[*cell as usize] += 1;
    }
    let expected = f64::from(SOURCES / CELLS);
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

#[test]
fn each_instance_has_its_own_seed() {
    let seeds = [(); 2].map(|()| Bytecode::with_kernel_clock().tables.control().unwrap().seed);
    for family in 0..2 {
        let [one, other] = seeds.map(|seed| cells(&seed, family));
        // Sources that share a cell with an earlier one.
        let neighbours = |cells: &[u32]| -> Vec<usize> {
            let together = |index: &usize| cells[..*index].contains(&cells[*index]);
            (1..1_000).filter(together).collect()
        };
        assert_ne!(neighbours(&one), neighbours(&other));
        for cells in [one, other] {
            let unevenness = unevenness(&cells);
            assert!(unevenness < f64::from(CELLS) + 10.0 * 90.0, "{seeds:?}: {unevenness}");
        }
    }
}

/// Consecutive addresses must not concentrate in few cells, whatever the seed.
#[test]
fn consecutive_addresses_spread_evenly_over_cells_with_any_seed() {
    for draw in 0..300 {
        let seed = [1, 2, 3, 4].map(|word| Walker::draw(draw * 4 + word));
        for family in 0..2 {
            let unevenness = unevenness(&cells(&seed, family));
            assert!(unevenness < f64::from(CELLS) + 10.0 * 90.0, "{seed:x?}, family {family}: {unevenness}");
        }
    }
}
