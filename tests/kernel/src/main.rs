//! XDP programs of the tests: a traffic source, two sinks, and what benchmarks need.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod rewrite;
#[cfg(target_arch = "bpf")]
mod scatter;
#[cfg(target_arch = "bpf")]
mod walk;

/// What the kernel runs.
#[cfg(target_arch = "bpf")]
mod programs {
    use aya_ebpf::{
        Global,
        bindings::xdp_action::{XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX},
        btf_maps::{Array, PerCpuArray},
        macros::{btf_map, xdp},
        programs::XdpContext,
    };

    use crate::{
        rewrite::{Head, restore, set_source},
        scatter::{scattered, spread},
    };

    /// Number of sources that `send` walks through; 0 leaves the frame as it is.
    #[unsafe(no_mangle)]
    static SOURCES: Global<u32> = Global::new(0);

    /// Not 0 if sources come in random order instead of one after the other.
    #[unsafe(no_mangle)]
    static RANDOM_ORDER: Global<u32> = Global::new(0);

    /// Not 0 if every packet has a source of its own, whose number counts from the first source's.
    #[unsafe(no_mangle)]
    static ENDLESS: Global<u32> = Global::new(0);

    /// Those 32 bits of the first source; its number if they are endless.
    #[unsafe(no_mangle)]
    static FIRST_SOURCE: Global<u32> = Global::new(0);

    /// The frame's beginning. The kernel uses a frame's memory again for a later one, with what the receiver's network
    /// stack has made of it meanwhile (it moves the addresses over a VLAN tag, for example).
    #[btf_map]
    static HEAD: Array<Head, 1> = Array::new();

    /// Packets that `send` has sent. One thread at a time runs it, so the count is one for all CPUs, and exact.
    #[btf_map]
    static SENT: Array<u64, 1> = Array::new();

    /// Packets that `pass` or `drop` has seen.
    #[btf_map]
    static RECEIVED: PerCpuArray<u64, 1> = PerCpuArray::new();

    /// Run with live frames: sends the frame out of the interface that it pretends to come from.
    #[xdp]
    fn send(ctx: XdpContext) -> u32 {
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

    /// Where the packet of this number comes from; nothing if the frame stays as it is.
    #[inline(always)]
    fn source(number: u64) -> Option<u32> {
        if ENDLESS.load() != 0 {
            return Some(spread(FIRST_SOURCE.load().wrapping_add(number as u32)));
        }
        let draw = if RANDOM_ORDER.load() == 0 { number } else { scattered(number) };
        let index = draw.checked_rem(u64::from(SOURCES.load()))?;
        Some(FIRST_SOURCE.load().wrapping_add(index as u32))
    }

    /// Counts, and lets pass.
    #[xdp]
    fn pass(_ctx: XdpContext) -> u32 {
        count_received();
        XDP_PASS
    }

    /// Counts, and drops.
    #[xdp]
    fn drop(_ctx: XdpContext) -> u32 {
        count_received();
        XDP_DROP
    }

    /// Drops and does nothing else: what benchmarks take off. It follows `walk`, so it takes frames of several buffers too.
    #[xdp(frags)]
    fn empty(_ctx: XdpContext) -> u32 {
        XDP_DROP
    }

    #[inline(always)]
    fn count_received() {
        if let Some(received) = RECEIVED.get_ptr_mut(0) {
            // SAFETY: the entry is this CPU's own, and nothing interrupts a program to run another on received packets.
            unsafe { *received += 1 };
        }
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

/// On the host there is nothing to run.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
