//! The maps, as the user side finds them pinned. Sizes are defaults; the user side may set others at load.

use aya_ebpf::{
    btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray},
    macros::btf_map,
};
use ratelimit_common::{
    identity::{
        class,
        filter::Filter,
        service::{ClassEntry, Services},
        source::{PrefixKey, Source},
    },
    limits::policy::Policy,
    maps::{
        control::Control,
        event,
        interface_counters::{Ledger, PLACES},
        names,
    },
    meters::interface_capacity,
    reason::REASONS,
    rules::rule::Rule,
};

use crate::{
    bpf::atomic::Word,
    cells::cell::Cell,
    maps::this_cpu::Own,
    meters::{interface_capacity::Shared, sliding_log::Logged, token_bucket::Tracked},
    telemetry::{
        counters::{Counter, Counters},
        events::{Head, Slot},
    },
};

/// A million rules take their memory when they are set, not when the program is loaded.
const NO_PREALLOC: usize = aya_ebpf::bindings::BPF_F_NO_PREALLOC as usize;

/// Makes an array begin with a page, so that its entries do not lie across cache lines (kernel 5.5).
const ALIGNED: usize = aya_ebpf::bindings::BPF_F_MMAPABLE as usize;

/// See [`names::CONTROL`].
#[btf_map]
pub static CONTROL: Array<Control, 1, ALIGNED> = Array::new();

/// See [`names::BUCKETS`].
#[btf_map]
pub static BUCKETS: LruHashMap<Source, Tracked, { names::BUCKETS_DEFAULT as usize }> = LruHashMap::new();

/// See [`names::SOURCE_RULES`].
#[btf_map]
pub static SOURCE_RULES: HashMap<Source, Rule, { names::SOURCE_RULES_MAX as usize }, NO_PREALLOC> = HashMap::new();

/// See [`names::PREFIX_RULES`].
#[btf_map]
pub static PREFIX_RULES: LpmTrie<PrefixKey, Rule, { names::PREFIX_RULES_MAX as usize }> = LpmTrie::new();

/// See [`names::POLICIES`].
#[btf_map]
pub static POLICIES: Array<Policy, { names::POLICIES_MAX as usize }> = Array::new();

/// See [`names::CLASSES`].
#[btf_map]
pub static CLASSES: Array<ClassEntry, { class::CLASSES }> = Array::new();

/// See [`names::SERVICES`].
#[btf_map]
pub static SERVICES: Array<Services, 1> = Array::new();

/// See [`names::COUNTERS`].
#[btf_map]
pub static COUNTERS: PerCpuArray<Counter, { 2 * REASONS }> = PerCpuArray::new();

/// See [`names::LINK_DISCOVERY`].
#[btf_map]
pub static LINK_DISCOVERY: Array<Word, 1> = Array::new();

/// See [`names::FRONT`].
#[btf_map]
pub static FRONT: Array<Cell, { names::CELLS_DEFAULT as usize }, ALIGNED> = Array::new();

/// See [`names::RULE_FILTER`].
#[btf_map]
pub static RULE_FILTER: Array<Filter, 1> = Array::new();

/// See [`names::BANS`].
#[btf_map]
pub static BANS: HashMap<Source, Rule, { names::BANS_MAX as usize }> = HashMap::new();

/// See [`names::CPUS`].
#[btf_map]
pub static CPUS: PerCpuArray<Own, 1> = PerCpuArray::new();

/// See [`names::UNKNOWN`].
#[btf_map]
pub static UNKNOWN: Array<Word, 1> = Array::new();

/// See [`names::SLIDING_LOGS`].
#[btf_map]
pub static SLIDING_LOGS: LruHashMap<Source, Logged, 1> = LruHashMap::new();

/// See [`names::EMPTY_SLIDING_LOG`].
#[btf_map]
pub static EMPTY_SLIDING_LOG: Array<Logged, 1> = Array::new();

/// See [`names::INTERFACE_CAPACITIES`].
#[btf_map]
pub static INTERFACE_CAPACITIES: Array<Shared, { interface_capacity::PLACES as usize }, ALIGNED> = Array::new();

/// See [`names::INTERFACE_CAPACITY_LEFT`].
#[btf_map]
pub static INTERFACE_CAPACITY_LEFT: PerCpuArray<Word, { interface_capacity::PLACES as usize }> = PerCpuArray::new();

/// See [`names::REPLIES`].
#[btf_map]
pub static REPLIES: Array<Word, 1> = Array::new();

/// See [`names::LEDGER`].
#[btf_map]
pub static LEDGER: Array<Ledger, 1> = Array::new();

/// See [`names::INTERFACE_COUNTERS`].
#[btf_map]
pub static INTERFACE_COUNTERS: PerCpuArray<Counters, { PLACES + 1 }> = PerCpuArray::new();

/// See [`names::OLD_BUCKETS`].
#[btf_map]
pub static OLD_BUCKETS: LruHashMap<Source, Tracked, 1> = LruHashMap::new();

/// See [`names::OLD_FRONT`].
#[btf_map]
pub static OLD_FRONT: Array<Cell, 1, ALIGNED> = Array::new();

/// See [`names::OLD_SLIDING_LOGS`].
#[btf_map]
pub static OLD_SLIDING_LOGS: LruHashMap<Source, Logged, 1> = LruHashMap::new();

/// See [`names::EVENTS`].
#[btf_map]
pub static EVENTS: Array<Slot, { event::PLACES as usize }, ALIGNED> = Array::new();

/// See [`names::EVENTS_WRITTEN`].
#[btf_map]
pub static EVENTS_WRITTEN: Array<Head, 1, ALIGNED> = Array::new();
