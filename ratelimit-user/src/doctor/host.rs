//! What the host brings along: privileges, kernel, and what makes every packet dearer.

use std::fs;

use super::{Check, Finding};
use crate::dataplane::{
    program::loader::FRAGS_SINCE,
    sys::host::{self, is_at_least},
};

const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// Clock sources that are read by asking a chip.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// `jitted` tells whether a running program is compiled, `as_root` is the command that sees more.
pub(super) fn examine(missing: &[&'static str], jitted: Option<bool>, as_root: &str) -> Vec<Finding> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let is_compiled = jitted.or_else(|| read(JIT).map(|text| text != "0"));
    let statistics = read(STATISTICS).map(|text| text != "0");
    let current = read(&format!("{CLOCK_SOURCE}/current_clocksource"));
    let available = read(&format!("{CLOCK_SOURCE}/available_clocksource")).unwrap_or_default();
    vec![
        privileges(missing, as_root),
        kernel(&host::release()),
        jit(is_compiled),
        self::statistics(statistics),
        clock_source(current.as_deref(), &available),
    ]
}

fn privileges(missing: &[&str], as_root: &str) -> Finding {
    if missing.is_empty() {
        return Finding::ok(Check::Privileges, "all that are needed");
    }
    let why = "No program can be attached without, and nothing of a running instance can be looked at.";
    Finding::error(Check::Privileges, &format!("this process lacks {}", missing.join(", ")), why).mended_by(as_root)
}

fn kernel(release: &str) -> Finding {
    if !host::is_supported(release) {
        return Finding::error(Check::Kernel, &format!("{release} is too old"), "ratelimit needs Linux 5.15 or newer.");
    }
    if !is_at_least(release, FRAGS_SINCE) {
        let why =
            "Frames of several buffers came with Linux 5.18: interfaces with jumbo frames need --mode generic here.";
        return Finding::note(Check::Kernel, &format!("{release} has no frames of several buffers"), why);
    }
    Finding::ok(Check::Kernel, release)
}

fn jit(is_compiled: Option<bool>) -> Finding {
    match is_compiled {
        Some(true) => Finding::ok(Check::Jit, "programs are compiled"),
        Some(false) => {
            let why =
                "The kernel interprets programs instead of compiling them, which takes far longer for every packet.";
            Finding::warning(Check::Jit, "the compiler of BPF programs is off", why)
                .mended_by("sysctl -w net.core.bpf_jit_enable=1")
        }
        None => {
            let why = "The setting cannot be seen from this network namespace; a running program would show it.";
            Finding::note(Check::Jit, "whether programs are compiled is not known", why)
        }
    }
}

fn statistics(is_on: Option<bool>) -> Finding {
    if is_on != Some(true) {
        return Finding::ok(Check::BpfStatistics, "off");
    }
    let why = "The kernel reads its clock twice for every packet to measure the program.";
    Finding::warning(Check::BpfStatistics, "the kernel measures BPF programs", why)
        .mended_by("sysctl -w kernel.bpf_stats_enabled=0")
}

fn clock_source(current: Option<&str>, available: &str) -> Finding {
    let Some(current) = current else { return Finding::ok(Check::ClockSource, "not told") };
    if !SLOW_CLOCKS.contains(&current) {
        return Finding::ok(Check::ClockSource, current);
    }
    let why = "Limits with a short burst, and all with parents, read the clock for every packet, and this one asks a slow chip.";
    let finding = Finding::warning(Check::ClockSource, current, why);
    let faster = ["tsc", "kvm-clock"].into_iter().find(|clock| available.split_whitespace().any(|word| word == *clock));
    match faster {
        Some(clock) => finding.mended_by(format!("echo {clock} > {CLOCK_SOURCE}/current_clocksource")),
        None => finding,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Severity, *};

    #[test]
    fn privileges_that_are_missing_are_named() {
        assert_eq!(privileges(&[], "").severity, Severity::Ok);
        let finding = privileges(&["CAP_BPF", "CAP_PERFMON"], "");
        assert_eq!(
            (finding.severity, finding.what.as_str()),
            (Severity::Error, "this process lacks CAP_BPF, CAP_PERFMON")
        );
    }

    #[test]
    fn kernels() {
        let severity = |release| kernel(release).severity;
        assert_eq!(severity("5.14.21"), Severity::Error);
        assert_eq!(severity("5.15.0-91-generic"), Severity::Note);
        assert_eq!(severity("5.18.0"), Severity::Ok);
        assert_eq!(kernel("6.12.1").what, "6.12.1");
    }

    #[test]
    fn an_interpreter_hurts() {
        assert_eq!(jit(Some(true)).severity, Severity::Ok);
        assert_eq!(jit(None).severity, Severity::Note);
        let finding = jit(Some(false));
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.mend.as_deref(), Some("sysctl -w net.core.bpf_jit_enable=1"));
    }

    #[test]
    fn measuring_hurts() {
        assert_eq!(statistics(None).severity, Severity::Ok);
        assert_eq!(statistics(Some(false)).severity, Severity::Ok);
        let finding = statistics(Some(true));
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.mend.as_deref(), Some("sysctl -w kernel.bpf_stats_enabled=0"));
    }

    #[test]
    fn slow_clocks_hurt() {
        for clock in ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"] {
            assert_eq!(clock_source(Some(clock), clock), Finding::ok(Check::ClockSource, clock));
        }
        let finding = clock_source(Some("hpet"), "tsc hpet acpi_pm");
        assert_eq!(finding.severity, Severity::Warning);
        let command = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
        assert_eq!(finding.mend.as_deref(), Some(command));
        // A clock that the kernel has found unsound is not among those that can be had.
        assert_eq!(clock_source(Some("acpi_pm"), "hpet acpi_pm").mend, None);
    }
}
