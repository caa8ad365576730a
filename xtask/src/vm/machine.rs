//! One run of one guest in QEMU.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::kernel::Kernel;

/// The most that a guest may take, in seconds: twice what it takes for all tests on two free processors.
const TIME_LIMIT: u32 = 1_800;

/// Pure emulation, which works everywhere. With a thread for each processor, one boot in twelve was unsound.
const ACCELERATOR: &str = "tcg,thread=single";

/// QEMU 7.2 emulates CMPXCHG16B with wrong flags, which an interrupt right after it saves: a double fault. Kernels do without.
const PROCESSOR: &str = "max,cx16=off";

/// What the guest's kernel says when something has gone wrong in itself.
const ALARMS: [&str; 4] = ["Kernel panic", "Oops", "BUG:", "general protection fault"];

/// An unsound kernel stops at once, and QEMU with it. What only costs time under emulation is off.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 rdinit=/init oops=panic panic=-1 nowatchdog mitigations=off";

/// Two network cards on one wire of their own, that of no host. The guest's kernel calls them eth0 and eth1.
const CARDS: [&str; 2] = ["first", "second"];

/// How a guest ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// It came to its end, and this is what its job printed.
    Off(String),
    /// It ended before its job did, or its kernel complained about itself; with what it said last.
    Died(String),
    /// It did not end in time.
    Hung,
}

/// A guest, with the files that it writes.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    kernel: &'a Kernel,
    initramfs: &'a Path,
    console: PathBuf,
    /// What its job prints.
    pub(super) report: PathBuf,
}

impl<'a> Machine<'a> {
    pub(super) fn new(kernel: &'a Kernel, initramfs: &'a Path) -> Self {
        Self {
            kernel,
            initramfs,
            console: initramfs.with_extension("console"),
            report: initramfs.with_extension("report"),
        }
    }

    /// Runs it until it turns itself off.
    pub(super) fn run(&self) -> Result<Ending> {
        // `timeout` holds the limit even if this process is killed.
        let mut qemu = Command::new("timeout");
        qemu.args(["--foreground", "--kill-after=5", &TIME_LIMIT.to_string(), "qemu-system-x86_64"]);
        qemu.args(["-accel", &env::var("VM_ACCEL").unwrap_or_else(|_| ACCELERATOR.to_owned())]);
        qemu.args(["-cpu", PROCESSOR, "-smp", "2", "-m", "1G", "-nodefaults", "-no-user-config", "-no-reboot"]);
        qemu.args(["-display", "none", "-append", KERNEL_ARGUMENTS]);
        qemu.arg("-kernel").arg(self.kernel.image()).arg("-initrd").arg(self.initramfs);
        for card in CARDS {
            qemu.args(["-netdev", &format!("hubport,id={card},hubid=0")]);
            // Without the ROM that could boot from it, which QEMU has in another package.
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

/// What a guest wrote; serial ports carry any byte.
fn text(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
