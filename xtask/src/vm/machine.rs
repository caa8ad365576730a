//! Runs one guest in QEMU.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::kernel::Kernel;

/// Time limit of a guest in seconds. All tests took 2,285 on kernel 6.12, and 2,628 on 6.1.
const TIME_LIMIT: u32 = 5_400;

/// Emulation, which works on every machine. With one thread per processor, one boot in twelve failed.
const ACCELERATOR: &str = "tcg,thread=single";

/// QEMU 7.2 emulates CMPXCHG16B with wrong flags, which causes a double fault. Kernels work without the instruction.
const PROCESSOR: &str = "max,cx16=off";

/// Memory of a guest. Half of it is for the initial file system, which takes 160 MB.
const MEMORY: &str = "1536M";

/// Messages of the guest's kernel about its own failure.
const ALARMS: [&str; 4] = ["Kernel panic", "Oops", "BUG:", "general protection fault"];

/// A kernel that fails stops at once, and QEMU with it. Features that cost time under emulation are off.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 rdinit=/init oops=panic panic=-1 nowatchdog mitigations=off";

/// Two network cards on one virtual wire, without the host. The guest's kernel names them eth0 and eth1.
const CARDS: [&str; 2] = ["first", "second"];

/// The end of a guest.
#[derive(Debug)]
pub(super) enum Ending {
    /// The job ended. Contains its output.
    Off(String),
    /// The guest ended before its job, or its kernel failed. Contains the last message.
    Died(String),
    /// The guest reached the time limit.
    Hung,
}

/// A guest, with its output files.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    kernel: &'a Kernel,
    initramfs: &'a Path,
    console: PathBuf,
    /// Output of the job.
    pub(super) report: PathBuf,
    /// Whether it only takes the CPU time that others leave.
    is_patient: bool,
}

impl<'a> Machine<'a> {
    pub(super) fn new(kernel: &'a Kernel, initramfs: &'a Path, is_patient: bool) -> Self {
        Self {
            kernel,
            initramfs,
            console: initramfs.with_extension("console"),
            report: initramfs.with_extension("report"),
            is_patient,
        }
    }

    /// Runs the guest until it turns itself off.
    pub(super) fn run(&self) -> Result<Ending> {
        // `timeout` enforces the limit even if this process is killed.
        let mut qemu = Command::new("timeout");
        qemu.args(["--foreground", "--kill-after=5", &TIME_LIMIT.to_string()]);
        if self.is_patient {
            qemu.args(["chrt", "--idle", "0"]);
        }
        qemu.arg("qemu-system-x86_64");
        qemu.args(["-accel", &env::var("VM_ACCEL").unwrap_or_else(|_| ACCELERATOR.to_owned())]);
        qemu.args(["-cpu", PROCESSOR, "-smp", "2", "-m", MEMORY, "-nodefaults", "-no-user-config", "-no-reboot"]);
        qemu.args(["-display", "none", "-append", KERNEL_ARGUMENTS]);
        qemu.arg("-kernel").arg(self.kernel.image()).arg("-initrd").arg(self.initramfs);
        for card in CARDS {
            qemu.args(["-netdev", &format!("hubport,id={card},hubid=0")]);
            // Without the boot ROM, which is in another package of QEMU.
            qemu.args(["-device", &format!("virtio-net-pci,netdev={card},romfile=")]);
        }
        for port in [&self.console, &self.report] {
            qemu.arg("-serial").arg(format!("file:{}", port.display()));
        }
        let result = qemu.output().context("cannot run qemu-system-x86_64 under timeout")?;
        let [console, report] = [&self.console, &self.report].map(|path| text(path));
        if matches!(result.status.code(), Some(124 | 137)) {
            return Ok(Ending::Hung);
        }
        let alarm = console.lines().find(|line| ALARMS.iter().any(|alarm| line.contains(alarm)));
        let ended = report.lines().any(|line| line.starts_with("guest rc="));
        Ok(match alarm {
            None if ended && result.status.success() => Ending::Off(report),
            Some(alarm) => Ending::Died(alarm.trim().to_owned()),
            None => {
                let last = console.lines().next_back().unwrap_or("nothing on the console").trim();
                let qemu = String::from_utf8_lossy(&result.stderr);
                Ending::Died(format!("{last} {}", qemu.trim()))
            }
        })
    }
}

/// Output of a guest. Serial ports transfer arbitrary bytes.
fn text(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
