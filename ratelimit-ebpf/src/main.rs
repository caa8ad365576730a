//! The XDP program: parse, judge, account, act.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

/// What the kernel runs for every packet.
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
        parse::parser::{self, Parsed},
        reply,
        telemetry::counters,
    };

    /// For drivers and kernels (5.18) with frames of several buffers.
    #[xdp(frags)]
    fn ratelimit(ctx: XdpContext) -> u32 {
        run(&ctx, Packet::of(&ctx))
    }

    /// For older kernels, which refuse the other.
    #[xdp]
    fn ratelimit_linear(ctx: XdpContext) -> u32 {
        run(&ctx, Packet::linear(&ctx))
    }

    /// Run by the user side alone: writes the ticks of the coarse clock and the nanoseconds of the precise one into a frame.
    #[xdp]
    fn ticks(ctx: XdpContext) -> u32 {
        clock::show(&ctx);
        XDP_DROP
    }

    /// For benchmarks: what passes is dropped here as well, so that only the limiter is compared.
    #[xdp(frags)]
    fn ratelimit_bench(ctx: XdpContext) -> u32 {
        run(&ctx, Packet::of(&ctx));
        XDP_DROP
    }

    #[inline(always)]
    fn run(ctx: &XdpContext, packet: Packet) -> u32 {
        let length = packet.length();
        let verdict = match judge(ctx, &packet) {
            Ok(verdict) => verdict,
            Err(Reason::LinkDiscovery) => link_discovery::judge().into(),
            Err(reason) => reason.into(),
        };
        counters::count(ctx, verdict, length);
        if verdict.reason.passes() || verdict.is_shadowed() {
            interface_capacity::count(ctx);
            return XDP_PASS;
        }
        debug!(ctx, "dropped {} bytes: {}", length, verdict.reason.name());
        if settings::is_on(&settings::REJECT_ON) && verdict.is_answered() && reply::send_back(ctx, length) {
            return XDP_TX;
        }
        XDP_DROP
    }

    #[inline(always)]
    fn judge(ctx: &XdpContext, packet: &Packet) -> Result<Verdict, Reason> {
        let Parsed { source, classes } = parser::parse(packet)?;
        // Reading it is three loads, which only few need.
        let interface = if settings::is_on(&settings::INTERFACE_MATTERS) { ctx.ingress_ifindex() as u32 } else { 0 };
        Ok(decide::judge(source, classes, packet.length(), interface))
    }

    /// Never called: the build refuses an object that could panic.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    /// Helpers that are for GPL programs only ask for this.
    #[unsafe(link_section = "license")]
    #[unsafe(no_mangle)]
    static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
}

/// On the host there is nothing to run.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
