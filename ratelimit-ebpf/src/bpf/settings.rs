//! Constants that the user side writes into the instructions before it loads the program.

use ratelimit_common::maps::{constants::Constant, control::IPV6_PREFIX_DEFAULT};

/// The constant with this number. On a host it is `HOST`, for unit tests.
pub struct Setting<const NUMBER: u32, const HOST: u32 = 0>;

impl<const NUMBER: u32, const HOST: u32> Setting<NUMBER, HOST> {
    /// Returns the constant.
    #[inline(always)]
    #[must_use]
    pub fn load(&self) -> u32 {
        #[cfg(target_arch = "bpf")]
        {
            let value: u64;
            // SAFETY: the instruction writes one register, which is the result.
            unsafe {
                core::arch::asm!("{0} = {1}", out(reg) value, const NUMBER, options(nomem, nostack, preserves_flags));
            }
            value as u32
        }
        #[cfg(not(target_arch = "bpf"))]
        HOST
    }
}

/// Declares settings by the constants of the program.
macro_rules! settings {
    ($($name:ident: $constant:ident $(= $host:expr)?),+ $(,)?) => {
        $(
            #[doc = concat!("See [`Constant::", stringify!($constant), "`].")]
            pub const $name: Setting<{ Constant::$constant.placeholder() } $(, { $host })?> = Setting;
        )+
    };
}

settings! {
    INJECTED_CLOCK: InjectedClock,
    SERVICES_ON: Services,
    PARENTS_ON: Parents,
    LANES_ON: Lanes,
    PASS_MALFORMED: PassMalformed,
    FRONT_CELLS: Cells,
    EPOCH_SHIFT: EpochShift,
    SAMPLE_ON: Sample,
    UNKNOWN_ON: Unknown,
    UNKNOWN_LEARNED: UnknownLearned,
    PROVE_TCP_ON: ProveTcp,
    OWN_ON: Own,
    SPARE_ON: Spare,
    OWN_PORTS_FIRST: OwnPortsFirst,
    OWN_PORTS_LAST: OwnPortsLast,
    SOFT_ON: Soft,
    ELASTIC_ON: Elastic,
    ACTIONS_ON: Actions,
    BANS_ON: Bans,
    BYTES_ON: Bytes,
    COSTS_ON: Costs,
    SHADOW_ON: Shadow,
    REJECT_ON: Reject,
    INTERFACES_ON: Interfaces,
    LISTS_ON: Lists,
    INTERFACE_MATTERS: InterfaceMatters,
    RESIZE_ON: Resize,
    OLD_CELLS: OldCells,
    IPV6_PREFIX: Ipv6Prefix = IPV6_PREFIX_DEFAULT,
    WINDOWS_ON: Windows = cfg!(test) as u32,
    SLIDING_LOGS_ON: SlidingLogs = cfg!(test) as u32,
    LEASES: Leases,
    DIVIDE_ON: Divide,
}

/// Returns whether a feature is on.
#[inline(always)]
#[must_use]
pub fn is_on<const NUMBER: u32, const HOST: u32>(setting: &Setting<NUMBER, HOST>) -> bool {
    setting.load() != 0
}

/// Returns whether cells stand in front of the buckets.
#[inline(always)]
#[must_use]
pub fn has_cells() -> bool {
    is_on(&FRONT_CELLS)
}

/// Returns whether limits other than the default have levels and budgets of their own.
#[inline(always)]
#[must_use]
pub fn has_lanes() -> bool {
    is_on(&LANES_ON)
}

/// Returns whether sources may have leases of a limit that a fleet shares.
#[inline(always)]
#[must_use]
pub fn has_leases() -> bool {
    is_on(&LEASES)
}

/// Returns whether the hosts of a fleet divide the burst of a new source.
#[inline(always)]
#[must_use]
pub fn divides_bursts() -> bool {
    is_on(&DIVIDE_ON)
}

/// Returns whether unknown sources are limited.
#[inline(always)]
#[must_use]
pub fn limits_unknown() -> bool {
    is_on(&UNKNOWN_ON)
}

/// Returns whether packets of this host's own connections are spared.
#[inline(always)]
#[must_use]
pub fn spares_own() -> bool {
    is_on(&OWN_ON)
}

/// Returns whether sockets decide about packets that would be refused.
#[inline(always)]
#[must_use]
pub fn looks_up_sockets() -> bool {
    spares_own() || limits_unknown()
}

/// Returns whether SYNs of unknown sources over their rate get a SYN cookie.
#[inline(always)]
#[must_use]
pub fn proves_tcp() -> bool {
    is_on(&PROVE_TCP_ON)
}

/// Returns whether limits may ban sources, or bans are in force.
#[inline(always)]
#[must_use]
pub fn has_bans() -> bool {
    is_on(&BANS_ON)
}

/// Returns whether packets of some services count as more than one.
#[inline(always)]
#[must_use]
pub fn has_costs() -> bool {
    is_on(&COSTS_ON)
}

/// Returns whether packets are told apart by service.
#[inline(always)]
#[must_use]
pub fn has_services() -> bool {
    is_on(&SERVICES_ON)
}

/// Returns whether some limits keep sliding logs.
#[inline(always)]
#[must_use]
pub fn has_sliding_logs() -> bool {
    is_on(&SLIDING_LOGS_ON)
}
