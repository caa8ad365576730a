//! XDP programs of the tests: a traffic source, two sinks, and programs for benchmarks.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod layout_12;
#[cfg(target_arch = "bpf")]
mod one_line;
#[cfg(target_arch = "bpf")]
mod only_clients;
#[cfg(target_arch = "bpf")]
mod pace;
#[cfg(target_arch = "bpf")]
mod received;
#[cfg(target_arch = "bpf")]
mod rewrite;
#[cfg(target_arch = "bpf")]
mod scatter;
#[cfg(target_arch = "bpf")]
mod walk;

/// The programs.
#[cfg(target_arch = "bpf")]
mod programs {
    use aya_ebpf::{
        Global,
        bindings::xdp_action::{XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX},
        btf_maps::Array,
        macros::{btf_map, xdp},
        programs::XdpContext,
    };

    use crate::{
        pace::is_due,
        received::count_received,
        rewrite::{Head, restore, set_source},
        scatter::{scattered, spread},
    };

    /// Number of sources that `send` uses; 0 leaves the frame unchanged.
    #[unsafe(no_mangle)]
    static SOURCES: Global<u32> = Global::new(0);

    /// Not 0 if sources are in random order.
    #[unsafe(no_mangle)]
    static RANDOM_ORDER: Global<u32> = Global::new(0);

    /// Not 0 if every packet has another source. Its number counts from the first source's.
    #[unsafe(no_mangle)]
    static ENDLESS: Global<u32> = Global::new(0);

    /// The 32 bits of the first source, or its number if sources are endless.
    #[unsafe(no_mangle)]
    static FIRST_SOURCE: Global<u32> = Global::new(0);

    /// The frame's beginning. The kernel reuses the memory of a frame after the receiver's network stack has changed
    /// it, for example by moving the addresses over a VLAN tag.
    #[btf_map]
    static HEAD: Array<Head, 1> = Array::new();

    /// Packets that `send` has sent. One thread at a time runs it, so a single counter is exact.
    #[btf_map]
    static SENT: Array<u64, 1> = Array::new();

    /// Sends the live frame out of the interface in its context, or drops it uncounted if no packet is due.
    #[xdp]
    fn send(ctx: XdpContext) -> u32 {
        if !is_due() {
            return XDP_DROP;
        }
        let (Some(head), Some(sent)) = (HEAD.get(0), SENT.get_ptr_mut(0)) else { return XDP_ABORTED };
        restore(&ctx, head);
        // SAFETY: the entry is valid, and no other CPU runs this program meanwhile.
        let number = unsafe { *sent };
        if source(number).is_some_and(|source| set_source(&ctx, source).is_none()) {
            return XDP_ABORTED;
        }
        // SAFETY: as above.
        unsafe { *sent = number + 1 };
        XDP_TX
    }

    /// Returns the source of the packet with this number, or nothing if the frame stays unchanged.
    #[inline(always)]
    fn source(number: u64) -> Option<u32> {
        if ENDLESS.load() != 0 {
            return Some(spread(FIRST_SOURCE.load().wrapping_add(number as u32)));
        }
        let draw = if RANDOM_ORDER.load() == 0 { number } else { scattered(number) };
        let index = draw.checked_rem(u64::from(SOURCES.load()))?;
        Some(FIRST_SOURCE.load().wrapping_add(index as u32))
    }

    /// Counts and passes the packet.
    #[xdp]
    fn pass(_ctx: XdpContext) -> u32 {
        count_received();
        XDP_PASS
    }

    /// Counts and drops the packet.
    #[xdp]
    fn drop(_ctx: XdpContext) -> u32 {
        count_received();
        XDP_DROP
    }

    /// Drops the packet and does nothing else. Benchmarks subtract its time. It follows `walk`, so it accepts frames of
    /// several buffers.
    #[xdp(frags)]
    fn empty(_ctx: XdpContext) -> u32 {
        XDP_DROP
    }

    /// Never called: the build refuses an object that could panic.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    #[unsafe(link_section = "license")]
    #[unsafe(no_mangle)]
    static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
}

/// The host build has nothing to run.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
