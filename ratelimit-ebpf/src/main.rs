//! The XDP program: it parses, decides, counts and acts.
//!
//! The object has three entry points. `ratelimit` takes frames of several buffers. `ratelimit_linear` is for kernels
//! before 5.18, which refuse the former. `ratelimit_bench` equals the first, but drops every packet after the decision.
//! The program `ticks` never receives packets: the user side runs it to read both clocks.
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
        packet::{frame::Packet, verdict::Verdict},
        parse::{outcome::Parsed, parser},
        reply::answer,
        telemetry::counters,
    };

    /// For drivers and kernels (5.18) with frames of several buffers.
    #[xdp(frags)]
    fn ratelimit(ctx: XdpContext) -> u32 {
        run(&ctx, Packet::of(&ctx))
    }

    /// For older kernels, which refuse the other program.
    #[xdp]
    fn ratelimit_linear(ctx: XdpContext) -> u32 {
        run(&ctx, Packet::linear(&ctx))
    }

    /// Writes the ticks of the coarse clock and the nanoseconds of the precise clock into a frame. Only the user side
    /// runs it.
    #[xdp]
    fn ticks(ctx: XdpContext) -> u32 {
        clock::show(&ctx);
        XDP_DROP
    }

    /// For benchmarks: drops the packets that pass, so that only the limiter is compared.
    #[xdp(frags)]
    fn ratelimit_bench(ctx: XdpContext) -> u32 {
        run(&ctx, Packet::of(&ctx));
        XDP_DROP
    }

    #[inline(always)]
    fn run(ctx: &XdpContext, packet: Packet) -> u32 {
        let length = packet.length();
        let verdict = match decide(ctx, &packet) {
            Ok(verdict) => verdict,
            Err(Reason::LinkDiscovery) => link_discovery::decide().into(),
            Err(reason) => reason.into(),
        };
        counters::count(ctx, verdict, length);
        if verdict.reason.passes() || verdict.is_shadowed() {
            interface_capacity::count(ctx);
            return XDP_PASS;
        }
        debug!(ctx, "dropped {} bytes: {}", length, verdict.reason.name());
        if settings::is_on(&settings::REJECT_ON) && verdict.is_answered() && answer::send_back(ctx, length) {
            return XDP_TX;
        }
        XDP_DROP
    }

    #[inline(always)]
    fn decide(ctx: &XdpContext, packet: &Packet) -> Result<Verdict, Reason> {
        let Parsed { source, classes } = parser::parse(packet)?;
        // Only some settings need these three loads.
        let interface = if settings::is_on(&settings::INTERFACE_MATTERS) { ctx.ingress_ifindex() as u32 } else { 0 };
        Ok(decide::decide(source, classes, packet.length(), interface))
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
