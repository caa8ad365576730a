//! Kernel memory, and the time of commands with very many entries.

use std::{
    fs,
    os::fd::{AsFd as _, AsRawFd as _},
    time::Instant,
};

use anyhow::{Context as _, Result};
use aya::{maps::MapInfo, programs::Xdp};
use ratelimit_common::{limits::policy::ALLOWED_ID, maps::names};
use ratelimit_dataplane::readings::tracked;
use ratelimit_tests::{Order, Sources, Walker};

use crate::{
    configurations::{self, PORT, REFERENCE},
    crowd::host_rules,
    measure::Effort,
    results::{Memory, Time},
};

/// Measures memory and times.
pub(crate) fn run(effort: &Effort) -> Result<(Memory, Time)> {
    let reference = configurations::CONFIGURATIONS.iter().find(|configuration| configuration.name == REFERENCE);
    let reference = reference.context("no row is the reference")?;
    let default = configurations::CONFIGURATIONS.first().context("there are no rows")?;
    let maps = maps(default.build(Sources::Count(1))?.program())?;
    let buckets = maps.iter().find(|(name, ..)| name == names::BUCKETS).context("the program has no buckets")?;
    let per_source = buckets.1 as f64 / f64::from(buckets.2);
    let all_maps = maps.iter().map(|(_, bytes, _)| bytes).sum();
    let maps = maps.into_iter().map(|(name, bytes, _)| (name, bytes)).collect();

    let sources = Sources::Count(effort.million);
    let mut bytecode = reference.build(sources)?;
    let mut walker = Walker::new(PORT, 0);
    walker.lead_to(bytecode.program());
    walker.run(sources, Order::InTurn, effort.million);
    let begin = Instant::now();
    let listed_sources = tracked::all(&bytecode.tables)?.len() as u32;
    let list_sources = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    host_rules(&mut bytecode, effort.million, ALLOWED_ID)?;
    let set_host_rules = begin.elapsed().as_secs_f64();
    let time = Time { host_rules: effort.million, set_host_rules, listed_sources, list_sources };
    Ok((Memory { per_source, all_maps, maps }, time))
}

/// Returns name, bytes and entries of every map that a program uses.
pub(crate) fn maps(program: &Xdp) -> Result<Vec<(String, u64, u32)>> {
    let ids = program.info()?.map_ids()?.context("the kernel does not list the maps of the program")?;
    let mut maps = Vec::new();
    for id in ids {
        let info = MapInfo::from_id(id)?;
        let descriptor = info.fd()?;
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_fd().as_raw_fd()))?;
        let memory = text.lines().find_map(|line| line.strip_prefix("memlock:")).context("a map has no size")?;
        maps.push((info.name_as_str().unwrap_or("?").to_owned(), memory.trim().parse()?, info.max_entries()));
    }
    maps.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    Ok(maps)
}
