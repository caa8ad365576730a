//! The program without pins and interfaces. The caller hands over each packet and its time. The maps end with the
//! process.

use std::io;

use aya::{Ebpf, TestRun as _, TestRunOptions, maps::IterableMap as _};
use ratelimit_common::{
    maps::control::{Control, FEATURE_COSTS, FEATURE_LISTS, FEATURE_SERVICES},
    reason::{REASONS, Reason},
    rules::rule::CONFIG,
};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::{
    Error,
    error::Tried as _,
    instance::edit,
    lists::{
        action::Action,
        change::{self, ListChange},
    },
    program::loader::{self, RequestedSettings, Settings},
    rules::{
        batch::{self, Change},
        capacities,
        costs::{self, Cost, RequestedCost},
    },
    sys::{features, host, link_type::FirstHeader, mmap_array::Mapped},
    tables::open::Tables,
};

/// Seed of the hashes, so that each trial of the same packets has the same result.
const SEED: [u64; 4] = [0x452e_21e6_38d0_1377, 0xbe54_66cf_34e9_0c6c, 0xc0ac_29b7_c97c_50dd, 0x3f84_d5b5_b547_0917];

/// The clock begins at a multiple of this many nanoseconds, about two weeks, after the kernel's clock. So nothing has
/// ended for the code that compares with the kernel's clock.
const EPOCH: u64 = 1 << 50;

/// Index of the interface that packets without one come from: the loopback interface.
const INTERFACE: u32 = 1;

/// The verdict with which a packet passes (include/uapi/linux/bpf.h).
const XDP_PASS: u32 = 2;

/// What to load the program with, and what to write into its maps.
pub struct Rules {
    /// Rules. Their ends count from 0, the time of the first packet.
    pub change: Change,
    pub lists: ListChange,
    pub costs: Vec<RequestedCost>,
    /// Packets per second of the interface, for elastic limits. 0 for none.
    pub capacity: u64,
}

/// A loaded program.
pub struct Trial {
    object: Ebpf,
    settings: Settings,
    tables: Tables,
    control: Mapped<Control>,
    start: u64,
    /// Packets by reason that the program has counted, as far as this was read.
    counted: [u64; REASONS],
    /// Reasons of drops, the latest first.
    latest: Vec<Reason>,
}

impl Trial {
    /// Loads the program with these settings and rules. `wall` is the time of the first packet in nanoseconds since 1970.
    ///
    /// Connections of this host, the shares of a fleet and shadow mode are left out. This thread stays on its CPU, because
    /// each CPU has budgets of its own.
    pub fn load(requested: &RequestedSettings, rules: &Rules, wall: u64) -> Result<Self, Error> {
        host::check()?;
        features::check()?;
        stay_on_this_cpu().tried("cannot stay on one CPU")?;
        let settings = Settings {
            own: 0,
            leases: false,
            divide: false,
            shadow: false,
            raw_ip: true,
            injected_clock: true,
            fixed_seed: Some(SEED),
            ..requested.or(Settings::default())
        };
        let settings = settings.with_features(settings.features() | edit::possible(needs(rules), settings.features()));
        let mut object = loader::load(&settings, None)?;
        let mut tables = Tables::of(&mut object, &settings)?;
        let start = (host::now() | (EPOCH - 1)).saturating_add(1);
        let wall = wall.wrapping_sub(start);
        tables.set_control(&Control { clock: start, coarse_clock: start, wall, ..tables.control()? })?;
        write(&mut tables, rules, start)?;
        let control = Mapped::to_write(tables.control.map()?.map())?;
        let latest = Reason::ALL.into_iter().filter(|reason| !reason.passes()).collect();
        Ok(Self { object, settings, tables, control, start, counted: [0; REASONS], latest })
    }

    /// Returns how many bits of an IPv6 address make a source.
    pub fn ipv6_prefix(&self) -> u32 {
        self.settings.ipv6_prefix
    }

    /// Decides a packet that arrives so many nanoseconds after the first. Returns the reason of a drop, or None if it
    /// passes.
    pub fn decide(&mut self, first: FirstHeader, frame: &[u8], after: u64) -> Result<Option<Reason>, Error> {
        self.set_time(self.start.saturating_add(after));
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        let program = loader::program(&mut self.object, &self.settings, first)?;
        let verdict = program.test_run(options).tried("cannot run the program")?.return_value;
        if verdict == XDP_PASS { Ok(None) } else { self.reason().map(Some) }
    }

    /// Returns the packets that passed over limits in shadow.
    pub fn in_shadow(&self) -> Result<u64, Error> {
        Ok(self.tables.shadow_counts()?.iter().map(|(_, count)| count.packets).sum())
    }

    fn set_time(&self, nanoseconds: u64) {
        if let Some(control) = self.control.place(0) {
            // SAFETY: the entry lies within the mapping, and this process alone writes it.
            unsafe {
                (&raw mut (*control).clock).write_volatile(nanoseconds);
                (&raw mut (*control).coarse_clock).write_volatile(nanoseconds);
            }
        }
    }

    /// Returns the reason under which the last packet was dropped: the one whose counter has moved.
    fn reason(&mut self) -> Result<Reason, Error> {
        for place in 0..self.latest.len() {
            let Some(&reason) = self.latest.get(place) else { break };
            let packets = self.tables.counters.of_reason(reason as u32)?.iter().map(|count| count.packets).sum();
            if let Some(counted) = self.counted.get_mut(reason as usize).filter(|counted| **counted != packets) {
                *counted = packets;
                if let Some(first) = self.latest.get_mut(..=place) {
                    first.rotate_right(1);
                }
                return Ok(reason);
            }
        }
        Err(Error::Bpf {
            what: "cannot run the program",
            detail: "it has dropped a packet without a reason".to_owned(),
        })
    }
}

/// Returns the features that rules need.
fn needs(rules: &Rules) -> u32 {
    let of_rule =
        |rule: &batch::RequestedRule| rules.change.specs.get(rule.spec).map(|spec| edit::needs(rule.target, spec));
    let of_list = |action: &Action| match action {
        Action::Limit(spec) => FEATURE_LISTS | edit::needs_of_rules(spec),
        Action::Deny => FEATURE_LISTS,
    };
    let costs = if rules.costs.is_empty() { 0 } else { FEATURE_COSTS | FEATURE_SERVICES };
    let lists = rules.lists.set.iter().map(|list| of_list(&list.action));
    rules.change.rules.iter().filter_map(of_rule).chain(lists).fold(costs, |all, features| all | features)
}

/// Writes the rules into maps that no packet uses yet.
fn write(tables: &mut Tables, rules: &Rules, start: u64) -> Result<(), Error> {
    capacities::set(tables, INTERFACE, rules.capacity)?;
    for &(service, cost) in &rules.costs {
        costs::set(tables, Cost { service, cost, origin: CONFIG })?;
    }
    let mut change = rules.change.clone();
    for rule in &mut change.rules {
        rule.expires = rule.expires.saturating_add(start);
    }
    change::apply(None, tables, &rules.lists, &|_| Ok(()))?;
    batch::apply(None, tables, &change, &mut |_| {}, &|_| Ok(())).map(drop)
}

fn stay_on_this_cpu() -> io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(sched_getcpu());
    Ok(sched_setaffinity(None, &cpus)?)
}
