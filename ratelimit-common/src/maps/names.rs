//! Names and sizes of the maps.

/// Settings and the generation of the rules. See [`crate::maps::control::Control`].
pub const CONTROL: &str = "CONTROL";
/// Source → bucket, least recently used goes first. See [`crate::buckets::bucket::Bucket`].
pub const BUCKETS: &str = "BUCKETS";
/// Source → rule for exactly that source. See [`crate::rules::rule::Rule`].
pub const SOURCE_RULES: &str = "SOURCE_RULES";
/// Prefix → rule for every source in it. See [`crate::rules::rule::Rule`].
pub const PREFIX_RULES: &str = "PREFIX_RULES";
/// Rule → its comment, and further owners of rules; only commands read it. See [`crate::rules::comment`].
pub const COMMENTS: &str = "COMMENTS";
/// Time → what was changed; only commands read it. See [`crate::maps::change::Change`].
pub const CHANGES: &str = "CHANGES";
/// Slot → policy. See [`crate::limits::policy::Policy`].
pub const POLICIES: &str = "POLICIES";
/// Class → its service and default. See [`crate::identity::service::ClassEntry`].
pub const CLASSES: &str = "CLASSES";
/// Protocol and port → classes. See [`crate::identity::service::Services`].
pub const SERVICES: &str = "SERVICES";
/// Reason → packets and bytes, per CPU. See [`crate::reason::Count`].
pub const COUNTERS: &str = "COUNTERS";
/// Place of an interface → state of its cap on ARP and neighbour discovery, one `u64`. The places are those of
/// [`LEDGER`]. See [`crate::meters::gcra`].
pub const LINK_DISCOVERY: &str = "LINK_DISCOVERY";
/// Seeded hash → cell that many sources share. See [`crate::cells::cell::Cell`].
pub const FRONT: &str = "FRONT";
/// Lane and seeded hash → levels of limits other than the default. See [`crate::maps::levels`].
pub const LEVELS: &str = "LEVELS";
/// Sources that a rule may match. See [`crate::identity::filter::Filter`].
pub const RULE_FILTER: &str = "RULE_FILTER";
/// Smaller groups of sources that a rule may match. See [`crate::identity::fine_filter`].
pub const FINE_FILTER: &str = "FINE_FILTER";
/// Slot → list. See [`crate::rules::list::List`].
pub const LISTS: &str = "LISTS";
/// IPv4 address → slots of the lists that have it; one entry while there are no lists. See
/// [`crate::rules::list::Slots`].
pub const LIST_ADDRESSES: &str = "LIST_ADDRESSES";
/// Prefix → slots of the lists that have it; one entry while there are no lists. See
/// [`crate::rules::list::ListedPrefix`].
pub const LIST_PREFIXES: &str = "LIST_PREFIXES";
/// Number of a list → packets and bytes that it has refused, per CPU. See [`crate::reason::Count`].
pub const LIST_HITS: &str = "LIST_HITS";
/// Prefix that this host spares → why. See [`crate::rules::spared::Spared`].
pub const SPARED: &str = "SPARED";
/// Keyed hash of a source → eight bans. See [`crate::rules::ban::BanSet`].
pub const BANS: &str = "BANS";
/// Keyed hash of a source → latest end of a ban, one `u64`. See [`crate::rules::ban::Group`].
pub const BAN_FILTER: &str = "BAN_FILTER";
/// Counters and budgets of each CPU. See [`crate::maps::cpu::Cpu`].
pub const CPUS: &str = "CPUS";
/// State of the limit of all unknown sources, one `u64`. See [`crate::meters::gcra`].
pub const UNKNOWN: &str = "UNKNOWN";
/// What the program has learned about the rate of unknown sources. See [`crate::cells::learned_rate::LearnedRate`].
pub const LEARNED_RATE: &str = "LEARNED_RATE";
/// Number of buckets that were created, one `u64`. See [`crate::cells::bucket_filter`].
pub const CREATED: &str = "CREATED";
/// Source → log, least recently used goes first; one entry while no limit keeps logs. See
/// [`crate::buckets::sliding_log::Log`].
pub const SLIDING_LOGS: &str = "SLIDING_LOGS";
/// An empty sliding log, which is copied because it is larger than the kernel side's stack.
pub const EMPTY_SLIDING_LOG: &str = "EMPTY_SLIDING_LOG";
/// Place of an interface → its capacity. See [`crate::meters::interface_capacity::Capacity`].
pub const INTERFACE_CAPACITIES: &str = "INTERFACE_CAPACITIES";
/// Place of an interface → packets that a CPU may count without a write to the shared state. One `u64`.
pub const INTERFACE_CAPACITY_LEFT: &str = "INTERFACE_CAPACITY_LEFT";
/// Places of interfaces. See [`crate::maps::interface_counters::Ledger`].
pub const LEDGER: &str = "LEDGER";
/// Place of an interface → packets and bytes by reason, per CPU. See [`crate::maps::interface_counters::Counts`].
pub const INTERFACE_COUNTERS: &str = "INTERFACE_COUNTERS";
/// States of the budgets for answers and for SYN cookies, one `u64` each. See [`crate::meters::gcra`].
pub const REPLIES: &str = "REPLIES";
/// Events. See [`crate::maps::event::Event`].
pub const EVENTS: &str = "EVENTS";
/// Number of events. See [`crate::maps::event::Written`].
pub const EVENTS_WRITTEN: &str = "EVENTS_WRITTEN";
/// Buckets of the map with the previous size during a resize. Not pinned under this name; one entry outside of a
/// resize.
pub const OLD_BUCKETS: &str = "OLD_BUCKETS";
/// Cells of the map with the previous size.
pub const OLD_FRONT: &str = "OLD_FRONT";
/// Sliding logs of the map with the previous size.
pub const OLD_SLIDING_LOGS: &str = "OLD_SLIDING_LOGS";
/// Keyed hash of a source → what a fleet leaves it of its limit on this host; one entry without a fleet. See
/// [`crate::fleet::lease::Lease`].
pub const LEASES: &str = "LEASES";
/// The maps whose sizes can change.
pub const SIZED: [&str; 7] = [BUCKETS, FRONT, LEVELS, SLIDING_LOGS, LIST_ADDRESSES, LIST_PREFIXES, LEASES];
/// The maps from which entries move when their size changes, and the names of their predecessors during a resize.
pub const MOVED: [(&str, &str); 3] = [(BUCKETS, OLD_BUCKETS), (FRONT, OLD_FRONT), (SLIDING_LOGS, OLD_SLIDING_LOGS)];
/// Keyed hash of a connection → what is remembered of it. Belongs to one loaded program and is not pinned. See
/// [`crate::cells::own_connection`].
pub const OWN_CONNECTIONS: &str = "OWN_CONNECTIONS";
/// Keyed hash of a source → what is remembered of its connections that this host has opened. Not pinned either.
pub const OWN_PEERS: &str = "OWN_PEERS";
/// Messages of the kernel side, made by aya-log; belongs to one loaded program and is not pinned.
pub const MESSAGES: &str = "AYA_LOGS";

/// The maps that are pinned, each under its name.
pub const PINNED: [&str; 36] = [
    CONTROL,
    BUCKETS,
    SOURCE_RULES,
    PREFIX_RULES,
    COMMENTS,
    CHANGES,
    POLICIES,
    CLASSES,
    SERVICES,
    COUNTERS,
    LINK_DISCOVERY,
    FRONT,
    LEVELS,
    RULE_FILTER,
    FINE_FILTER,
    BANS,
    BAN_FILTER,
    CPUS,
    UNKNOWN,
    LEARNED_RATE,
    CREATED,
    SLIDING_LOGS,
    EMPTY_SLIDING_LOG,
    INTERFACE_CAPACITIES,
    INTERFACE_CAPACITY_LEFT,
    REPLIES,
    EVENTS,
    EVENTS_WRITTEN,
    LEDGER,
    INTERFACE_COUNTERS,
    LISTS,
    LIST_ADDRESSES,
    LIST_PREFIXES,
    LIST_HITS,
    LEASES,
    SPARED,
];

/// Number of buckets of a new instance on a machine with little memory: about 21 MB at 160 bytes each (kernel 6.18).
pub const BUCKETS_DEFAULT: u32 = 1 << 17;
/// Default number of cells: 8 MB at 64 bytes each. With twice as many, sources share cells half as often, and a flood
/// of new sources costs a third more (kernel 6.18, 32 MB of L3 cache). So do a million sources within their limits
/// (kernel 6.18, 2 MB of L2 cache).
pub const CELLS_DEFAULT: u32 = 1 << 17;
/// Default number of sliding logs: about 11 MB at 680 bytes each, once a limit keeps sliding logs.
pub const SLIDING_LOGS_DEFAULT: u32 = 1 << 14;
/// Largest number of cells. So many bits of a hash select a cell, and do not help to tell sources apart.
pub const CELLS_MAX: u32 = 1 << 20;
/// Sets of bans: 2 MB at 256 bytes each.
pub const BAN_SETS: u32 = 1 << 13;
/// Places of a set. Their ends fill a cache line.
pub const BANS_OF_A_SET: u32 = 8;
/// Places for bans.
pub const BANS_MAX: u32 = BAN_SETS * BANS_OF_A_SET;
/// Groups of sources in the filter of bans: 131 kB at 8 bytes each.
pub const BAN_GROUPS: u32 = 1 << 14;
/// Rules for single sources.
pub const SOURCE_RULES_MAX: u32 = 1 << 20;
/// Rules for prefixes. Those for whole IPv6 sources are among them.
pub const PREFIX_RULES_MAX: u32 = 1 << 18;
/// Prefixes that a host spares. Further ones are left out.
pub const SPARED_MAX: u32 = 1 << 12;
/// Changes that are kept. The oldest go first.
pub const CHANGES_MAX: u32 = 256;
/// Comments of rules, and further owners: 4 MB while there are none.
pub const COMMENTS_MAX: u32 = 1 << 18;
/// Addresses of all lists.
pub const LIST_ADDRESSES_MOST: u32 = 1 << 20;
/// Prefixes of all lists. All of IPv6 is among them.
pub const LIST_PREFIXES_MOST: u32 = 1 << 18;
/// Places for addresses, as soon as there is a list. While a list is replaced, its old entries are there too.
pub const LIST_ADDRESSES_MAX: u32 = 2 * LIST_ADDRESSES_MOST;
/// Places for prefixes, as soon as there is a list.
pub const LIST_PREFIXES_MAX: u32 = 2 * LIST_PREFIXES_MOST;
/// Different policies at a time. With [`crate::identity::class::CLASSES`] they fill the 12 bits of a
/// [`crate::buckets::bucket::Resolution`].
pub const POLICIES_MAX: u32 = 4096 - crate::identity::class::CLASSES as u32;
