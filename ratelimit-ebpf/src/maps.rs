//! The maps, as the user side finds them pinned. Sizes are defaults; the user side may set others at load.

use aya_ebpf::{
    btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray},
    macros::btf_map,
};
use ratelimit_common::{
    capacity, class,
    control::Control,
    event,
    filter::Filter,
    interface::{Ledger, PLACES},
    map,
    policy::Policy,
    reason::REASONS,
    rule::Rule,
    service::{ClassEntry, Services},
    source::{PrefixKey, Source},
};

use crate::{
    account::{Counter, Counters},
    atomic::Word,
    bucket::Tracked,
    capacity::Shared,
    cpu::Own,
    events::{Head, Slot},
    front::Cell,
    log::Logged,
};

/// A million rules take their memory when they are set, not when the program is loaded.
const NO_PREALLOC: usize = aya_ebpf::bindings::BPF_F_NO_PREALLOC as usize;

/// Makes an array begin with a page, so that its entries do not lie across cache lines (kernel 5.5).
const ALIGNED: usize = aya_ebpf::bindings::BPF_F_MMAPABLE as usize;

/// See [`map::CONTROL`].
#[btf_map]
pub static CONTROL: Array<Control, 1, ALIGNED> = Array::new();

/// See [`map::BUCKETS`].
#[btf_map]
pub static BUCKETS: LruHashMap<Source, Tracked, { map::BUCKETS_DEFAULT as usize }> = LruHashMap::new();

/// See [`map::SOURCE_RULES`].
#[btf_map]
pub static SOURCE_RULES: HashMap<Source, Rule, { map::SOURCE_RULES_MAX as usize }, NO_PREALLOC> = HashMap::new();

/// See [`map::PREFIX_RULES`].
#[btf_map]
pub static PREFIX_RULES: LpmTrie<PrefixKey, Rule, { map::PREFIX_RULES_MAX as usize }> = LpmTrie::new();

/// See [`map::POLICIES`].
#[btf_map]
pub static POLICIES: Array<Policy, { map::POLICIES_MAX as usize }> = Array::new();

/// See [`map::CLASSES`].
#[btf_map]
pub static CLASSES: Array<ClassEntry, { class::CLASSES }> = Array::new();

/// See [`map::SERVICES`].
#[btf_map]
pub static SERVICES: Array<Services, 1> = Array::new();

/// See [`map::COUNTERS`].
#[btf_map]
pub static COUNTERS: PerCpuArray<Counter, { 2 * REASONS }> = PerCpuArray::new();

/// See [`map::DISCOVERY`].
#[btf_map]
pub static DISCOVERY: Array<Word, 1> = Array::new();

/// See [`map::FRONT`].
#[btf_map]
pub static FRONT: Array<Cell, { map::CELLS_DEFAULT as usize }, ALIGNED> = Array::new();

/// See [`map::RULE_FILTER`].
#[btf_map]
pub static RULE_FILTER: Array<Filter, 1> = Array::new();

/// See [`map::BANS`].
#[btf_map]
pub static BANS: HashMap<Source, Rule, { map::BANS_MAX as usize }> = HashMap::new();

/// See [`map::CPUS`].
#[btf_map]
pub static CPUS: PerCpuArray<Own, 1> = PerCpuArray::new();

/// See [`map::STRANGERS`].
#[btf_map]
pub static STRANGERS: Array<Word, 1> = Array::new();

/// See [`map::LOGS`].
#[btf_map]
pub static LOGS: LruHashMap<Source, Logged, 1> = LruHashMap::new();

/// See [`map::EMPTY_LOG`].
#[btf_map]
pub static EMPTY_LOG: Array<Logged, 1> = Array::new();

/// See [`map::CAPACITIES`].
#[btf_map]
pub static CAPACITIES: Array<Shared, { capacity::PLACES as usize }, ALIGNED> = Array::new();

/// See [`map::CAPACITY_LEFT`].
#[btf_map]
pub static CAPACITY_LEFT: PerCpuArray<Word, { capacity::PLACES as usize }> = PerCpuArray::new();

/// See [`map::REPLIES`].
#[btf_map]
pub static REPLIES: Array<Word, 1> = Array::new();

/// See [`map::LEDGER`].
#[btf_map]
pub static LEDGER: Array<Ledger, 1> = Array::new();

/// See [`map::SHARES`].
#[btf_map]
pub static SHARES: PerCpuArray<Counters, { PLACES + 1 }> = PerCpuArray::new();

/// See [`map::OLD_BUCKETS`].
#[btf_map]
pub static OLD_BUCKETS: LruHashMap<Source, Tracked, 1> = LruHashMap::new();

/// See [`map::OLD_FRONT`].
#[btf_map]
pub static OLD_FRONT: Array<Cell, 1, ALIGNED> = Array::new();

/// See [`map::OLD_LOGS`].
#[btf_map]
pub static OLD_LOGS: LruHashMap<Source, Logged, 1> = LruHashMap::new();

/// See [`map::EVENTS`].
#[btf_map]
pub static EVENTS: Array<Slot, { event::PLACES as usize }, ALIGNED> = Array::new();

/// See [`map::EVENTS_WRITTEN`].
#[btf_map]
pub static EVENTS_WRITTEN: Array<Head, 1, ALIGNED> = Array::new();
