//! Decisions in the library, beside other limiters that are libraries.

use std::{panic::resume_unwind, sync::Barrier, thread, time::Instant};

use anyhow::{Result, ensure};
use ratelimit_limiter::Algorithm;

use super::{
    keys,
    limiter::Limiter,
    ours::{OURS, Ours, rate},
};
use crate::{
    measure::{Effort, pin},
    state::State,
    table::{Row, Table},
};

/// Keys of the columns beside those with very many.
const FEW: usize = 1_000;
/// The fewest decisions of a sample, unless they need much preparation.
const DECISIONS: usize = 200_000;

/// Measures everything. A figure is millions of decisions per second of all threads together.
pub(super) fn run(effort: &Effort) -> Result<Vec<Table>> {
    let many = effort.million as usize;
    let mut tables = Vec::new();
    for state in [State::Passing, State::Over] {
        let cells = [cells(effort, state, FEW)?, cells(effort, state, many)?];
        let [few, many] = &cells;
        let rows = few.iter().zip(many).map(|((name, few), (_, many))| Row {
            name: (*name).to_owned(),
            figures: (0..THREADS.len()).flat_map(|place| [few, many].map(|cells| cells.get(place).copied())).collect(),
            is_drawn: false,
        });
        let words = if state == State::Over { "over the limit" } else { "passing" };
        let keys = match effort.million / 1_000 {
            1_000 => "1 M keys".to_owned(),
            thousands => format!("{thousands} k keys"),
        };
        let columns = [
            "one thread, 1 k keys".to_owned(),
            format!("one thread, {keys}"),
            "two threads, 1 k keys".to_owned(),
            format!("two threads, {keys}"),
        ];
        let title = format!("million decisions per second in the library: {words}");
        let table = Table::plain(&title, [], rows.collect(), 2);
        tables.push(Table { about: ABOUT, columns: columns.to_vec(), references: &[OURS], ..table });
    }
    Ok(tables)
}

/// Numbers of threads.
const THREADS: [usize; 2] = [1, 2];

/// Returns the figures of all limiters with so many keys, by number of threads.
fn cells(effort: &Effort, state: State, count: usize) -> Result<Vec<(&'static str, Vec<f64>)>> {
    // First requests come in another order, so that what they have allocated does not lie in the order of later ones.
    let first: Vec<_> = (0..count).map(keys::key).collect();
    let orders = keys::orders(count);
    let limiters = limiters(state, count)?;
    for limiter in &limiters {
        eprintln!("decisions of {} ({state}), {count} keys: first requests", limiter.name());
        for keys in first.chunks(limiter.most().min(count)) {
            let allowed = limiter.prepare(keys)();
            ensure!(allowed == keys.len(), "{} allows {allowed} of {} first requests", limiter.name(), keys.len());
        }
    }
    let mut samples = vec![[const { Vec::new() }; THREADS.len()]; limiters.len()];
    for round in 0..effort.rounds {
        effort.print_progress(&format!("decisions ({state}), {count} keys"), round + 1);
        for (place, threads) in THREADS.into_iter().enumerate() {
            for (limiter, samples) in limiters.iter().zip(&mut samples) {
                samples[place].push(sample(limiter.as_ref(), state, &orders[..threads], round)?);
            }
        }
    }
    let figures = samples.iter().map(|samples| samples.iter().map(|rounds| effort.figure(rounds)).collect());
    Ok(limiters.iter().map(|limiter| limiter.name()).zip(figures).collect())
}

/// Returns all of them.
fn limiters(state: State, keys: usize) -> Result<Vec<Box<dyn Limiter>>> {
    let ours: Box<dyn Limiter> = Box::new(Ours::new(rate(state), Algorithm::TokenBucket, 2 * keys)?);
    #[cfg(feature = "peers")]
    let peers = super::peers::all(state, keys)?;
    #[cfg(not(feature = "peers"))]
    let peers: [Box<dyn Limiter>; 0] = [];
    Ok([ours].into_iter().chain(peers).collect())
}

/// Asks on a thread for each order of the keys. Returns millions of decisions per second.
fn sample(limiter: &dyn Limiter, state: State, orders: &[Vec<String>], round: usize) -> Result<f64> {
    let barrier = Barrier::new(orders.len());
    let ask = |cpu: usize, order: &[String]| {
        let part = limiter.most().min(order.len());
        // Each round asks for the next keys.
        let begin = round * part % order.len();
        let keys = &order[begin..(begin + part).min(order.len())];
        let times = DECISIONS.min(limiter.most()).div_ceil(keys.len());
        let work: Vec<_> = (0..times).map(|_| limiter.prepare(keys)).collect();
        let pinned = pin(cpu);
        barrier.wait();
        let begin = Instant::now();
        let allowed: usize = work.into_iter().map(|work| work()).sum();
        let seconds = begin.elapsed().as_secs_f64();
        pinned?;
        let count = times * keys.len();
        let refused = 1.0 - allowed as f64 / count as f64;
        ensure!(state.dropped().contains(&refused), "{} ({state}): {refused:.3} are refused", limiter.name());
        Ok((count, seconds))
    };
    let results: Vec<_> = thread::scope(|scope| {
        let ask = &ask;
        let threads: Vec<_> =
            orders.iter().enumerate().map(|(cpu, order)| scope.spawn(move || ask(cpu, order))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|payload| resume_unwind(payload))).collect()
    });
    let results = results.into_iter().collect::<Result<Vec<_>>>()?;
    let (count, seconds) =
        results.iter().fold((0, 0.0_f64), |(sum, longest), (count, seconds)| (sum + count, longest.max(*seconds)));
    Ok(count as f64 / seconds / 1e6)
}

/// What the tables show.
const ABOUT: &str = "\
Each limiter has one token bucket for each key, or what it has instead, and its own clock. The keys are text that the
caller has at hand. Each thread asks for all keys in an order of its own, which is not the order of the first requests.
`ratelimit` has one rule by `user`, and room for twice as many clients. `governor` is keyed, with `dashmap`. `limitador`
is in memory, and its contexts are made beforehand.";
