//! Benchmark: cost and rate of packets, beside other limiters. Figures compare only within one run.

mod configurations;
mod crowd;
mod flood;
mod machine;
mod measure;
mod report;
mod results;
mod state;
mod table;

use std::{env, panic::resume_unwind, thread, time::Instant};

use anyhow::{Context as _, Result};
use configurations::{CONFIGURATIONS, REFERENCE};
use machine::Machine;
use measure::{
    Effort, accuracy, algorithms, attack, check, cpus, fleet, footprint, live, mixed,
    noise::{RUNS, quietest},
    packet, survival, users,
    visitors::{self, Extent},
    worst,
};
use report::record;
use results::Results;

fn main() -> Result<()> {
    if let Some(result) = check::work_as_child() {
        return result;
    }
    let begin = Instant::now();
    let has = |name| env::args().skip(1).any(|argument| argument == name);
    let quick = has("--quick");
    let extent = match (quick, has("--record")) {
        (true, _) => Effort::quick,
        (false, true) => Effort::recorded,
        (false, false) => Effort::full,
    };
    let effort = extent();

    if has("--algorithms") {
        let table = algorithms::table(&algorithms::run(&effort)?, &algorithms::memory(effort.million)?);
        println!("{}", table.text());
        return Ok(());
    }
    if has("--attacks") {
        let results = attack::run(&effort)?;
        attack::tables(&results).iter().for_each(|table| println!("{}", table.text()));
        return Ok(());
    }
    if has("--accuracy") {
        let results = accuracy::run(&effort)?;
        println!("{}", accuracy::table(&results).text());
        accuracy::doubts(&results).iter().for_each(|doubt| println!("{doubt}"));
        return Ok(());
    }
    if has("--check") {
        let machine = Machine::this()?;
        let tables = check::run(&effort)?;
        tables.iter().for_each(|table| println!("{}", table.text()));
        return if has("--record") { record::check(&machine, effort.noise.median(), &tables) } else { Ok(()) };
    }
    if has("--cpus") {
        println!("{}", report::two_cpus(&cpus::run(&effort)?).text());
        return Ok(());
    }
    if has("--fleet") {
        let machine = Machine::this()?;
        let (tables, packets) = fleet::run(&effort)?;
        let doubts: Vec<_> = report::doubtful_packets(&packets).collect();
        tables.iter().for_each(|table| println!("{}", table.text()));
        doubts.iter().for_each(|doubt| println!("{doubt}"));
        return if has("--record") { record::fleet(&machine, &tables, &doubts) } else { Ok(()) };
    }
    if has("--mixed") {
        let results = mixed::run(&effort)?;
        println!("{}", mixed::table(&results).text());
        mixed::doubtful(&results).for_each(|doubt| println!("{doubt}"));
        return Ok(());
    }
    if has("--packets") {
        let (floor, packets) = packet::run(&effort, &CONFIGURATIONS, "packets without a network")?;
        report::packets(floor, &packets).iter().for_each(|table| println!("{}", table.text()));
        report::doubtful_packets(&packets).for_each(|doubt| println!("{doubt}"));
        return Ok(());
    }
    if has("--users") {
        let results = users::run(&effort.users)?;
        let tables = report::users::tables(&results, effort.users.patience);
        tables.iter().for_each(|table| println!("{}", table.text()));
        report::users::goal_line(&results).iter().for_each(|line| println!("{line}"));
        report::users::doubts(&results).for_each(|doubt| println!("{doubt}"));
        record::users(&results)?;
        return record::plots(&tables);
    }
    if has("--visitors") {
        let machine = Machine::this()?;
        let results = visitors::run(if quick { &Extent::QUICK } else { &Extent::FULL })?;
        let tables = report::visitors::tables(&results);
        tables.iter().for_each(|table| println!("{}", table.text()));
        let summary = report::visitors::summary(&results);
        let is_recorded = has("--record") && !tables.is_empty();
        return if is_recorded { record::visitors(&machine, &tables, &summary) } else { Ok(()) };
    }
    if has("--worst") {
        let results = worst::run(&effort)?;
        println!("{}", worst::table(&results).text());
        report::doubtful(&results).for_each(|doubt| println!("{doubt}"));
        return Ok(());
    }
    let mut runs = Vec::new();
    for _ in 0..if has("--record") { RUNS } else { 1 } {
        // A thread of its own, since measuring moves it to one CPU.
        let run = thread::spawn(move || whole(&extent(), quick));
        let results = run.join().unwrap_or_else(|payload| resume_unwind(payload))?;
        // If a later run fails, this one is not lost.
        record::results(&results)?;
        eprintln!("whole run {}: noise {:.1} %", runs.len() + 1, results.noise * 100.0);
        runs.push(results);
    }
    let quietest = quietest(runs.iter().map(|results| results.noise)).context("there is no run")?;
    let results = runs.swap_remove(quietest);
    let tables = report::tables(&results, &effort);
    println!(
        "{}; medians of {} interleaved rounds, where a case has rounds\n",
        report::header(&results),
        effort.rounds
    );
    for table in &tables {
        println!("{}", table.text());
    }
    report::users::goal_line(&results.users).iter().for_each(|line| println!("{line}"));
    for doubt in report::doubts(&results) {
        println!("{doubt}");
    }
    record::results(&results)?;
    record::plots(&tables)?;
    if has("--record") {
        record::document(&results, &tables)?;
    }
    println!("{:.0} s in all; target/bench/results.json has every figure", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Measures everything.
fn whole(effort: &Effort, quick: bool) -> Result<Results> {
    // Measuring moves this thread to one CPU, and later only that one would count.
    let machine = Machine::this()?;
    let algorithms = algorithms::memory(effort.million)?;
    let (memory, time) = footprint::run(effort)?;
    let live = live::run(effort)?;
    let attacks = attack::run(effort)?;
    let extent = effort.users;
    // A thread of its own, since it moves to one CPU.
    let users = thread::spawn(move || users::run(&extent)).join().unwrap_or_else(|payload| resume_unwind(payload))?;
    let survival = survival::run(effort)?;
    let accuracy = accuracy::run(effort)?;
    let two_cpus = cpus::run(effort)?;
    let (floor_nanoseconds, packet) = packet::run(effort, &CONFIGURATIONS, "packets without a network")?;
    let by_algorithm = algorithms::run(effort)?;
    let worst = worst::run(effort)?;
    let mixed = mixed::run(effort)?;
    Ok(Results {
        machine,
        quick,
        noise: effort.noise.median(),
        reference: REFERENCE,
        floor_nanoseconds,
        packet,
        live,
        attacks,
        users,
        survival,
        accuracy,
        two_cpus,
        memory,
        time,
        algorithms,
        by_algorithm,
        worst,
        mixed,
    })
}
