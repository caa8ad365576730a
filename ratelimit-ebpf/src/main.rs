//! The XDP program: parse, judge, account, act.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

/// What the kernel runs for every packet.
#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::{
        bindings::xdp_action::{XDP_DROP, XDP_PASS},
        macros::xdp,
        programs::XdpContext,
    };
    use aya_log_ebpf::debug;
    use ratelimit_common::reason::Reason;
    use ratelimit_ebpf::{account, discovery, limiter, packet::Packet, parse};

    #[xdp]
    fn ratelimit(ctx: XdpContext) -> u32 {
        let packet = Packet::of(&ctx);
        let length = packet.length();
        let reason = match parse::source(&packet) {
            Ok(source) => limiter::judge(&source, length),
            Err(Reason::LinkDiscovery) => discovery::judge(),
            Err(reason) => reason,
        };
        account::count(reason, length);
        if reason.passes() {
            return XDP_PASS;
        }
        debug!(&ctx, "dropped {} bytes: {}", length, reason.name());
        XDP_DROP
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
