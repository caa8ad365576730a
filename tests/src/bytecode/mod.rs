//! The product's bytecode, run packet by packet under a clock that the test sets, and other programs without an
//! interface. Programs on interfaces with traffic are in `traffic`.

pub(crate) mod clock;
mod contents;
pub(crate) mod debts;
pub(crate) mod empty;
pub(crate) mod layout_12;
mod loaded;
mod mapped;
pub(crate) mod old_maps;
pub(crate) mod runner;
pub(crate) mod walker;

use std::{
    ops::{Deref, DerefMut},
    thread,
};

use aya::{
    Ebpf,
    maps::{Array, IterableMap as _, Map, MapData, PerCpuValues},
    programs::{Xdp, XdpMode},
};
use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::{class::ANY, fine_filter, source::Source},
    limits::{
        limit::SECOND,
        policy::{Policy, PolicyId},
    },
    maps::cpu::Cpu,
    meters::gcra::units,
    reason::{Count, Reason},
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    program::loader::{self, Settings},
    rules::{filter, policies, spec::RuleSpec},
    sys::{link_type::FirstHeader, mmap_array},
    tables::open::Tables,
};
use ratelimit_sandbox::Attached;

use self::{
    clock::{Clock, coarse},
    loaded::Loaded,
    mapped::Mapped,
};
use crate::{Runner, Sandbox, Verdict, delete_rule, set_rule};

/// A policy slot that no rule uses, for policies that a test writes itself.
const TEST_SLOT: PolicyId = 100;

/// The entry point of the benchmark.
const DROPPING: &str = "ratelimit_bench";

/// Seed of programs under an injected clock, so that a test uses the same cells each time.
const SEED: [u64; 4] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

/// The program and its maps, attached to no interface with traffic. It was loaded for this test, or for an earlier one with
/// the same settings; then its maps are as they were before the first packet.
pub struct Bytecode {
    /// There until it is dropped.
    loaded: Option<Loaded>,
    settings: Settings,
    attached: Vec<Attached>,
    /// Whether the next test may use it. Not after packets of a network, which may still be under way.
    is_whole: bool,
}

impl Deref for Bytecode {
    type Target = Loaded;

    fn deref(&self) -> &Loaded {
        self.loaded.as_ref().expect("dropped")
    }
}

impl DerefMut for Bytecode {
    fn deref_mut(&mut self) -> &mut Loaded {
        self.loaded.as_mut().expect("dropped")
    }
}

impl Drop for Bytecode {
    fn drop(&mut self) {
        if let Some(loaded) = self.loaded.take().filter(|_| self.is_whole && !thread::panicking()) {
            loaded.leave(self.settings);
        }
    }
}

impl Bytecode {
    /// Loads the program with the clock that [`Self::set_time`] sets.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it, for example without root.
    #[must_use]
    pub fn load() -> Self {
        Self::with(Settings::default())
    }

    /// Loads the program with these settings and that clock.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it, for example without root.
    #[must_use]
    pub fn with(settings: Settings) -> Self {
        let fixed_seed = settings.fixed_seed.or(Some(SEED));
        Self::new(Settings { injected_clock: true, fixed_seed, ..settings })
    }

    /// Loads the program like the product does, with the kernel's clock.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it, for example without root.
    #[must_use]
    pub fn with_kernel_clock() -> Self {
        Self::with_kernel_clock_and(Settings::default())
    }

    /// Loads the program with these settings and the kernel's clock.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it, for example without root.
    #[must_use]
    pub fn with_kernel_clock_and(settings: Settings) -> Self {
        Self::new(settings)
    }

    fn new(settings: Settings) -> Self {
        Self { loaded: Some(Loaded::with(&settings)), settings, attached: Vec::new(), is_whole: true }
    }

    /// Attaches the variant that drops every packet to a link of the victim, with the same maps, in the driver.
    ///
    /// # Panics
    ///
    /// If `link` already has a program, or the object was built without the feature `bench`.
    pub fn attach_dropping(&mut self, sandbox: &Sandbox, link: &str) {
        self.is_whole = false;
        let program: &mut Xdp = self.ebpf.program_mut(DROPPING).expect("built without it").try_into().unwrap();
        program.load().expect("the kernel refuses the program");
        sandbox.victim(|| program.attach(link, XdpMode::Driver)).expect("cannot attach");
    }

    /// Attaches the program to a link of the victim until dropped.
    ///
    /// # Panics
    ///
    /// If `link` already has a program.
    pub fn attach(&mut self, sandbox: &Sandbox, link: &str, mode: XdpMode) {
        self.is_whole = false;
        let settings = self.settings;
        let program = loader::program(&mut self.ebpf, &settings, FirstHeader::Ethernet);
        let program = program.expect("the object has no program");
        let id = sandbox.victim(|| program.attach(link, mode)).expect("cannot attach");
        let attached = Attached::of(program.take_link(id).unwrap());
        self.attached.push(attached);
    }

    /// Takes a map away.
    pub(crate) fn take_map(&mut self, name: &str) -> Map {
        self.is_whole = false;
        self.ebpf.take_map(name).expect("the object has no such map")
    }

    /// Sets the time of later packets, in nanoseconds.
    pub fn set_time(&mut self, nanoseconds: u64) {
        let mut control = self.tables.control().expect("cannot read the control map");
        control.clock = nanoseconds;
        control.coarse_clock = coarse(&control);
        self.tables.set_control(&control).expect("cannot write the control map");
    }

    /// Returns a second handle on the clock, to move it while other threads run packets.
    ///
    /// # Panics
    ///
    /// If the kernel refuses to open the control map again.
    #[must_use]
    pub fn clock(&self) -> Clock {
        let id = self.tables.control.map().unwrap().map().info().expect("cannot read the control map").id();
        let map = MapData::from_id(id).and_then(|data| Array::try_from(Map::Array(data)));
        let value = self.tables.control().expect("cannot read the control map");
        Clock { map: map.expect("cannot open the control map again"), value }
    }

    /// Makes `policy` the default for every source from the next packet on. The policy also becomes the one with the
    /// largest debt.
    pub fn set_default(&mut self, policy: &Policy) {
        self.tables.policies.set(TEST_SLOT, policy).expect("cannot write a policy");
        let mut control = self.tables.control().expect("cannot read the control map");
        control.largest_debt = policies::largest_debt(policy);
        self.tables.set_control(&control).expect("cannot write the control map");
        self.tables.set_default_policy(ANY, TEST_SLOT, COMMAND).expect("cannot write a default");
        self.tables.renew().expect("cannot write the control map");
    }

    /// Sets the rule of a target such as `10.0.0.0/8` or `default udp/53`.
    pub fn set(&mut self, target: &str, terms: impl Into<RuleSpec>) {
        set_rule(&mut self.tables, target, terms);
    }

    /// Deletes the rule of a target.
    pub fn delete(&mut self, target: &str) {
        delete_rule(&mut self.tables, target);
    }

    /// Splits the program from its maps, so that packets run on one thread while rules change on another.
    pub fn apart(&mut self) -> (Runner<'_>, &mut Tables) {
        let settings = self.settings;
        let loaded = &mut **self;
        (runner(&loaded.ebpf, &settings, FirstHeader::Ethernet), &mut loaded.tables)
    }

    /// Runs one packet.
    pub fn send(&self, frame: &[u8]) -> Verdict {
        self.repeat(frame, 1)
    }

    /// Runs the same packet `times` times and returns the last verdict.
    pub fn repeat(&self, frame: &[u8], times: u32) -> Verdict {
        Runner(self.program()).repeat(frame, times)
    }

    /// Runs one packet and returns its verdict and output.
    pub fn exchange(&self, frame: &[u8]) -> (Verdict, Vec<u8>) {
        Runner(self.program()).exchange(frame)
    }

    /// Runs one packet and returns its reason.
    pub fn reason(&self, frame: &[u8]) -> Reason {
        self.reason_of(frame, || self.send(frame))
    }

    /// Runs one packet of `frame`'s length by `run`, and returns its reason.
    pub fn reason_of(&self, frame: &[u8], run: impl FnOnce() -> Verdict) -> Reason {
        let before = self.counts();
        let verdict = run();
        let after = self.counts();
        let counted = |&(reason, count): &(Reason, Count)| {
            let earlier = before[reason as usize].1;
            (count.packets == earlier.packets + 1 && count.bytes == earlier.bytes + frame.len() as u64)
                .then_some(reason)
        };
        let reasons: Vec<Reason> = after.iter().filter_map(counted).collect();
        let [reason] = reasons[..] else { panic!("one packet was counted under {reasons:?}") };
        assert_eq!(reason.passes(), verdict == Verdict::Pass, "{reason:?}");
        reason
    }

    /// Returns packets and bytes by reason.
    #[must_use]
    pub fn counts(&self) -> Vec<(Reason, Count)> {
        self.tables.counts().expect("cannot read the counters")
    }

    /// Returns packets of one reason.
    #[must_use]
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts()[reason as usize].1.packets
    }

    /// Returns the bucket of a source.
    #[must_use]
    pub fn bucket(&self, source: Source) -> Option<Bucket> {
        self.tables.buckets.open().unwrap().get(&source, 0).ok()
    }

    /// Reads the two filters that tell whether a rule may match a source. Both must say so.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn filters(&self) -> impl Fn(&Source) -> [bool; 2] + use<> {
        let first = filter::read(&self.tables).expect("cannot read the first filter");
        let fine = self.tables.fine_filter.open().expect("the program has no second filter");
        let fine: Vec<u64> =
            mmap_array::Mapped::of(fine.map()).expect("cannot read the second filter").iter().collect();
        let seed = self.tables.control().expect("cannot read the control map").seed;
        move |source| [first.concerns(source), fine_filter::concerns(source, &seed, |index| fine.get(index).copied())]
    }

    /// Sets the admission budget to `per_second` on each CPU and returns how many buckets were possible.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn set_admissions(&mut self, per_second: u64) -> u64 {
        let mut control = self.tables.control().expect("cannot read the control map");
        let before = std::mem::replace(&mut control.admission.per_second, per_second);
        control.admission.cost = (units(SECOND) / per_second).max(1);
        self.tables.set_control(&control).expect("cannot write the control map");
        before
    }

    /// Returns the state of each CPU.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    #[must_use]
    pub fn cpus(&self) -> PerCpuValues<Cpu> {
        self.tables.cpus.open().unwrap().get(&0, 0).expect("cannot read the state of CPUs")
    }

    /// Clears the state of every source: buckets, sliding logs, cells, cached refusals, and used budgets.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn forget(&mut self) {
        let tracked: Vec<_> =
            self.tables.buckets.open().unwrap().keys().collect::<Result<_, _>>().expect("cannot read the buckets");
        for source in tracked {
            self.tables.buckets.open_mut().unwrap().remove(&source).expect("cannot remove a bucket");
        }
        let logged: Vec<_> =
            self.tables.logs.open().unwrap().keys().collect::<Result<_, _>>().expect("cannot read the logs");
        for source in logged {
            self.tables.logs.open_mut().unwrap().remove(&source).expect("cannot remove a log");
        }
        Mapped::of(self.tables.front.open().unwrap().map()).zero();
        Mapped::of(self.tables.levels.open().unwrap().map()).zero();
        let now = units(self.tables.control().expect("cannot read the control map").clock);
        let fresh = Cpu { admission: now, sampling: now, ..Cpu::default() };
        let cpus: Vec<_> = self.cpus().iter().map(|_| fresh).collect();
        let cpus = PerCpuValues::try_from(cpus).expect("cannot write the state of CPUs");
        self.tables.cpus.open_mut().unwrap().set(0, cpus, 0).expect("cannot write the state of CPUs");
    }

    /// Returns the loaded program.
    #[must_use]
    pub fn program(&self) -> &Xdp {
        self.runner(FirstHeader::Ethernet).0
    }

    /// Returns the program for packets that begin with this header. Both have the same maps.
    #[must_use]
    pub fn runner(&self, first: FirstHeader) -> Runner<'_> {
        runner(&self.ebpf, &self.settings, first)
    }
}

fn runner<'a>(ebpf: &'a Ebpf, settings: &Settings, first: FirstHeader) -> Runner<'a> {
    let program = ebpf.program(loader::name_of(settings, first)).expect("the object has no program");
    Runner(program.try_into().expect("the program is not an XDP program"))
}
