//! XDP programs of the tests: a traffic source and two sinks.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

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

    /// Number of sources that `send` walks through; 0 leaves the frame as it is.
    #[unsafe(no_mangle)]
    static SOURCES: Global<u32> = Global::new(0);

    /// Not 0 if sources come in random order instead of one after the other.
    #[unsafe(no_mangle)]
    static RANDOM_ORDER: Global<u32> = Global::new(0);

    /// Where in the frame the 32 bits are by which sources differ.
    #[unsafe(no_mangle)]
    static SOURCE_AT: Global<u32> = Global::new(0);

    /// Those 32 bits of the first source.
    #[unsafe(no_mangle)]
    static FIRST_SOURCE: Global<u32> = Global::new(0);

    /// Where in the frame the checksums are that cover the source; 0 is none.
    #[unsafe(no_mangle)]
    static HEADER_CHECKSUM_AT: Global<u32> = Global::new(0);
    /// See [`HEADER_CHECKSUM_AT`].
    #[unsafe(no_mangle)]
    static TRANSPORT_CHECKSUM_AT: Global<u32> = Global::new(0);

    /// The frame's beginning. The kernel uses a frame's memory again for a later one, with what the receiver's network
    /// stack has made of it meanwhile (it moves the addresses over a VLAN tag, for example).
    #[btf_map]
    static HEAD: Array<Head, 1> = Array::new();

    /// Enough for every header.
    type Head = [u64; 16];

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
        let sources = SOURCES.load();
        if sources != 0 {
            let draw = if RANDOM_ORDER.load() == 0 { number } else { scattered(number) };
            let source = FIRST_SOURCE.load().wrapping_add((draw % u64::from(sources)) as u32);
            if set_source(&ctx, source).is_none() {
                return XDP_ABORTED;
            }
        }
        // SAFETY: as above.
        unsafe { *sent = number + 1 };
        XDP_TX
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

    /// Drops and does nothing else: what benchmarks take off.
    #[xdp]
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

    /// A number that looks drawn at random (the finalizer of SplitMix64).
    #[inline(always)]
    fn scattered(number: u64) -> u64 {
        let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Writes the frame's beginning, as far as it has whole words.
    #[inline(always)]
    fn restore(ctx: &XdpContext, head: &Head) {
        for (index, word) in head.iter().enumerate() {
            let Some(field) = at::<u64>(ctx, (index * size_of::<u64>()) as u32) else { return };
            // SAFETY: `at` has checked that the bytes lie within the frame.
            unsafe { field.write_unaligned(*word) };
        }
    }

    /// Writes the source, and adjusts the checksums by the difference to the first one.
    #[inline(always)]
    fn set_source(ctx: &XdpContext, source: u32) -> Option<()> {
        let field = at::<[u8; 4]>(ctx, SOURCE_AT.load())?;
        // SAFETY: `at` has checked that the bytes lie within the frame.
        let old = u32::from_be_bytes(unsafe { field.read_unaligned() });
        // SAFETY: as above.
        unsafe { field.write_unaligned(source.to_be_bytes()) };
        for offset in [HEADER_CHECKSUM_AT.load(), TRANSPORT_CHECKSUM_AT.load()] {
            if offset != 0 {
                let field = at::<[u8; 2]>(ctx, offset)?;
                // SAFETY: as above.
                let checksum = u16::from_be_bytes(unsafe { field.read_unaligned() });
                // SAFETY: as above.
                unsafe { field.write_unaligned(adjusted(checksum, old, source).to_be_bytes()) };
            }
        }
        Some(())
    }

    /// The checksum after `old` became `new` in what it covers (RFC 1624).
    #[inline(always)]
    fn adjusted(checksum: u16, old: u32, new: u32) -> u16 {
        let halves = |word: u32| (word >> 16) + (word & 0xffff);
        let mut sum = u32::from(!checksum) + halves(!old) + halves(new);
        sum = halves(sum);
        sum = halves(sum);
        // Both zeros verify, but a UDP checksum of 0 means that there is none.
        if sum == 0xffff { 0xffff } else { !sum as u16 }
    }

    /// The `T` at `offset`, if the frame reaches that far.
    #[inline(always)]
    fn at<T>(ctx: &XdpContext, offset: u32) -> Option<*mut T> {
        let start = ctx.data() + offset as usize;
        (start + size_of::<T>() <= ctx.data_end()).then_some(start as *mut T)
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
