//! Checks of the host: privileges, kernel, and settings that slow down every packet.

use std::fs;

use ratelimit_dataplane::sys::{features, host};

use super::finding::{Check, Finding};

const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// Clock sources that are read from a slow chip.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// Returns the findings. `jitted` tells whether a running program is compiled. `as_root` is this command with more
/// privileges.
pub(super) fn examine(missing: &[&'static str], jitted: Option<bool>, as_root: &str) -> Vec<Finding> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let is_compiled = jitted.or_else(|| read(JIT).map(|text| text != "0"));
    let statistics = read(STATISTICS).map(|text| text != "0");
    let current = read(&format!("{CLOCK_SOURCE}/current_clocksource"));
    let available = read(&format!("{CLOCK_SOURCE}/available_clocksource")).unwrap_or_default();
    vec![
        privileges(missing, as_root),
        kernel(&host::release(), missing.is_empty()),
        jit(is_compiled),
        self::statistics(statistics),
        clock_source(current.as_deref(), &available),
    ]
}

fn privileges(missing: &[&str], as_root: &str) -> Finding {
    if missing.is_empty() {
        return Finding::ok(Check::Privileges, "all necessary ones");
    }
    let why = "They are needed to attach, and to read a running instance.";
    Finding::error(Check::Privileges, &format!("this process lacks {}", missing.join(", ")), why).fixed_by(as_root)
}

/// Returns the finding about the kernel. Without privileges, its features cannot be tried.
fn kernel(release: &str, is_privileged: bool) -> Finding {
    let features = is_privileged.then(|| (features::check().is_ok(), features::several_buffers().unwrap_or(true)));
    about_kernel(release, features)
}

/// `features` are whether the program can run, and whether it can receive frames of several buffers.
fn about_kernel(release: &str, features: Option<(bool, bool)>) -> Finding {
    match features {
        None | Some((true, true)) => Finding::ok(Check::Kernel, release),
        Some((false, _)) => {
            let why = "ratelimit needs compare-and-exchange in BPF programs, as in Linux 5.15.";
            Finding::error(Check::Kernel, &format!("{release} is too old"), why)
        }
        Some((true, false)) => {
            let why = "Frames of several buffers came with Linux 5.18. On this kernel, interfaces with jumbo frames need --mode generic.";
            Finding::note(Check::Kernel, &format!("{release} does not support frames of several buffers"), why)
        }
    }
}

fn jit(is_compiled: Option<bool>) -> Finding {
    match is_compiled {
        Some(true) => Finding::ok(Check::Jit, "BPF programs are compiled"),
        Some(false) => {
            let why = "The kernel interprets BPF programs, which takes far longer for every packet.";
            Finding::warning(Check::Jit, "the compiler of BPF programs is off", why)
                .fixed_by("sysctl -w net.core.bpf_jit_enable=1")
        }
        None => {
            let why = "This network namespace does not show the setting. A running program would show it.";
            Finding::note(Check::Jit, "it is unknown whether BPF programs are compiled", why)
        }
    }
}

fn statistics(is_on: Option<bool>) -> Finding {
    if is_on != Some(true) {
        return Finding::ok(Check::BpfStatistics, "off");
    }
    let why = "The kernel reads its clock twice for every packet to measure the program.";
    Finding::warning(Check::BpfStatistics, "the kernel measures BPF programs", why)
        .fixed_by("sysctl -w kernel.bpf_stats_enabled=0")
}

fn clock_source(current: Option<&str>, available: &str) -> Finding {
    let Some(current) = current else { return Finding::ok(Check::ClockSource, "unknown") };
    if !SLOW_CLOCKS.contains(&current) {
        return Finding::ok(Check::ClockSource, current);
    }
    let why = "Limits with a short burst read the clock for every packet. This clock is read from a slow chip.";
    let finding = Finding::warning(Check::ClockSource, current, why);
    let faster = ["tsc", "kvm-clock"].into_iter().find(|clock| available.split_whitespace().any(|word| word == *clock));
    match faster {
        Some(clock) => finding.fixed_by(format!("echo {clock} > {CLOCK_SOURCE}/current_clocksource")),
        None => finding,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Severity, *};

    #[test]
    fn missing_privileges_are_named() {
        assert_eq!(privileges(&[], "").severity, Severity::Ok);
        let finding = privileges(&["CAP_BPF", "CAP_PERFMON"], "");
        assert_eq!(
            (finding.severity, finding.what.as_str()),
            (Severity::Error, "this process lacks CAP_BPF, CAP_PERFMON")
        );
    }

    #[test]
    fn old_kernels_are_reported() {
        let severity = |features| about_kernel("5.15.0-91-generic", features).severity;
        assert_eq!(severity(Some((false, false))), Severity::Error);
        assert_eq!(severity(Some((true, false))), Severity::Note);
        assert_eq!(severity(Some((true, true))), Severity::Ok);
        assert_eq!(about_kernel("6.12.1", None), Finding::ok(Check::Kernel, "6.12.1"));
    }

    #[test]
    fn an_interpreter_is_a_warning() {
        assert_eq!(jit(Some(true)).severity, Severity::Ok);
        assert_eq!(jit(None).severity, Severity::Note);
        let finding = jit(Some(false));
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.fix.as_deref(), Some("sysctl -w net.core.bpf_jit_enable=1"));
    }

    #[test]
    fn measuring_is_a_warning() {
        assert_eq!(statistics(None).severity, Severity::Ok);
        assert_eq!(statistics(Some(false)).severity, Severity::Ok);
        let finding = statistics(Some(true));
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.fix.as_deref(), Some("sysctl -w kernel.bpf_stats_enabled=0"));
    }

    #[test]
    fn slow_clocks_are_a_warning() {
        for clock in ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"] {
            assert_eq!(clock_source(Some(clock), clock), Finding::ok(Check::ClockSource, clock));
        }
        let finding = clock_source(Some("hpet"), "tsc hpet acpi_pm");
        assert_eq!(finding.severity, Severity::Warning);
        let command = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
        assert_eq!(finding.fix.as_deref(), Some(command));
        // The kernel does not offer a clock that it has found unreliable.
        assert_eq!(clock_source(Some("acpi_pm"), "hpet acpi_pm").fix, None);
    }
}
