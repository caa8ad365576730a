//! The XDP program: it parses, decides, counts and acts.
//!
//! The object has four entry points. `ratelimit` takes Ethernet frames of several buffers, and `ratelimit_raw` packets
//! of interfaces without Ethernet headers. `ratelimit_linear` and `ratelimit_raw_linear` are for kernels before 5.18,
//! which refuse these. Only with the feature `bench`, there is `ratelimit_bench`, which equals the first, but drops every
//! packet after the decision. The program `ticks` never receives packets: the user side runs it to read both clocks.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

/// The code that the kernel runs for every packet.
#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::{
        bindings::xdp_action::{XDP_DROP, XDP_PASS, XDP_TX},
        macros::xdp,
        programs::XdpContext,
    };
    use aya_log_ebpf::debug;
    use ratelimit_common::reason::Reason;
    use ratelimit_ebpf::{
        bpf::{clock, settings},
        decide,
        meters::{interface_capacity, link_discovery},
        packet::frame::{self, FirstBuffer, Frame as _, Packet},
        parse::{
            outcome::{Parsed, Stop},
            parser,
        },
        reply::answer,
        telemetry,
    };

    // Each entry point is one function: a call costs time and, before Linux 6.8, 32 of the 512 bytes of stack.

    /// For drivers and kernels (5.18) with frames of several buffers.
    #[xdp(frags)]
    #[inline(always)]
    fn ratelimit(ctx: XdpContext) -> u32 {
        run::<true, true>(&ctx)
    }

    /// For older kernels, which refuse the other program.
    #[xdp]
    #[inline(always)]
    fn ratelimit_linear(ctx: XdpContext) -> u32 {
        run::<true, false>(&ctx)
    }

    /// For interfaces whose packets begin with the IP header.
    #[xdp(frags)]
    #[inline(always)]
    fn ratelimit_raw(ctx: XdpContext) -> u32 {
        run::<false, true>(&ctx)
    }

    /// For such interfaces on older kernels.
    #[xdp]
    #[inline(always)]
    fn ratelimit_raw_linear(ctx: XdpContext) -> u32 {
        run::<false, false>(&ctx)
    }

    /// Writes the ticks of the coarse clock and the nanoseconds of the precise clock into a frame. Only the user side
    /// runs it.
    #[xdp]
    fn ticks(ctx: XdpContext) -> u32 {
        clock::show(&ctx);
        XDP_DROP
    }

    /// For the benchmark: drops the packets that pass, so that only the limiter is compared.
    #[cfg(feature = "bench")]
    #[xdp(frags)]
    #[inline(always)]
    fn ratelimit_bench(ctx: XdpContext) -> u32 {
        run::<true, true>(&ctx);
        XDP_DROP
    }

    /// Runs one packet. `ETHERNET` and `FRAGS` say what the interface and the kernel have.
    #[inline(always)]
    fn run<const ETHERNET: bool, const FRAGS: bool>(ctx: &XdpContext) -> u32 {
        let (parsed, length) = if FRAGS { parse::<ETHERNET>(ctx) } else { parse_linear::<ETHERNET>(ctx) };
        let verdict = match parsed {
            Ok(parsed) => {
                // Only some settings need these three loads.
                let matters = settings::is_on(&settings::INTERFACE_MATTERS);
                let interface = if matters { ctx.ingress_ifindex() as u32 } else { 0 };
                decide::decide::<FRAGS>(ctx, parsed, length, interface)
            }
            Err(Reason::LinkDiscovery) => link_discovery::decide(ctx).into(),
            Err(reason) => reason.into(),
        };
        telemetry::count(ctx, verdict, length);
        if verdict.reason.passes() || verdict.is_shadowed() {
            interface_capacity::count(ctx);
            return XDP_PASS;
        }
        debug!(ctx, "dropped {} bytes: {}", length, verdict.reason.name());
        // Without Ethernet, the kernel takes the changed bytes of a reply for a changed Ethernet header.
        let rejects = ETHERNET && settings::is_on(&settings::REJECT_ON) && verdict.is_answered();
        let whole = || if FRAGS { frame::whole_length(ctx) } else { length };
        if verdict.is_syn_ack() || rejects && answer::send_back(ctx, whole()) {
            return XDP_TX;
        }
        XDP_DROP
    }

    /// Parses a frame, and returns its bytes with the result.
    #[inline(always)]
    fn parse<const ETHERNET: bool>(ctx: &XdpContext) -> (Result<Parsed, Reason>, u32) {
        let frame = FirstBuffer::of(ctx);
        match parser::parse::<ETHERNET>(&frame) {
            Ok(parsed) => (Ok(parsed), frame.length()),
            Err(Stop::Because(reason)) if frame.is_measured() => (Err(reason), frame.length()),
            Err(Stop::Because(reason)) => (Err(reason), frame::whole_length(ctx)),
            Err(Stop::Unread) => parser::parse_scattered::<ETHERNET>(ctx),
        }
    }

    /// Parses a frame of one buffer.
    #[inline(always)]
    fn parse_linear<const ETHERNET: bool>(ctx: &XdpContext) -> (Result<Parsed, Reason>, u32) {
        let packet = Packet::of(ctx);
        let parsed = parser::parse::<ETHERNET>(&packet).map_err(|stop| match stop {
            Stop::Because(reason) => reason,
            Stop::Unread => Reason::Truncated,
        });
        (parsed, packet.length())
    }

    /// Never called: the build refuses an object that could panic.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    /// Helpers for GPL programs only require this.
    #[unsafe(link_section = "license")]
    #[unsafe(no_mangle)]
    static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
}

/// On the host there is nothing to run.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
