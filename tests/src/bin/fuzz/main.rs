//! Compares the product with an independent parser on random frames, until they differ or the number is reached.
//!
//! Arguments: the number of frames, and the seed. Or `--check`, the seconds for each target, the seed, and a target: these
//! have the server for requests read hostile input.

mod check;

use std::{
    env,
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use ratelimit_tests::{differential::Differential, generate::Generator};

const FRAMES: u64 = 5_000_000;

/// Frames between two reads of the clock.
const BATCH: u64 = 4_096;

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1).peekable();
    let is_check = arguments.next_if_eq("--check").is_some();
    let mut number = |what| arguments.next().map(|text| text.parse::<u64>().context(what)).transpose();
    let frames = number("how many frames?")?.unwrap_or(FRAMES);
    let seed = number("which seed?")?.unwrap_or_else(|| RandomState::new().hash_one(0));
    if is_check {
        return check::run(Duration::from_secs(frames), seed, arguments.next().as_deref());
    }
    println!("{frames} frames from the seed {seed}");
    let mut differential = Differential::new();
    let mut generator = Generator::new(seed);
    let (begin, mut reported) = (Instant::now(), Instant::now());
    for number in 1..=frames {
        let (frame, kinds) = generator.make();
        differential.compare(frame, kinds).with_context(|| format!("frame {number} from the seed {seed}"))?;
        if number.is_multiple_of(BATCH) && reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            println!("{number} frames, {} s", begin.elapsed().as_secs());
        }
    }
    differential.finish();
    println!("\n{}\nno other difference, in {:.1} s", differential.tally, begin.elapsed().as_secs_f64());
    Ok(())
}
