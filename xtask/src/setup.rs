//! `cargo xtask setup`: finds or installs the tools for building and testing, except stable Rust and a C compiler.

pub(crate) mod unpacked;

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use ratelimit_build::{BPF_LINKER, LLVM_MAJOR, NIGHTLY, Toolchain, linker, linker_root, llvm_prefix};

use crate::run;

/// A required tool, and the Debian packages that contain it.
struct Need {
    what: &'static str,
    packages: &'static [&'static str],
    present: fn() -> bool,
}

/// What builds the product, and runs its demo.
const BUILD_NEEDS: [Need; 3] = [
    Need {
        what: "a Rust compiler for bpfel-unknown-none",
        packages: &["rustc-web", "libstd-rust-web-dev-bpf"],
        present: || Toolchain::find().is_some(),
    },
    Need {
        what: "LLVM 22 with headers",
        packages: &["llvm-22-dev", "libzstd-dev", "zlib1g-dev"],
        present: || linker_works() || llvm_prefix().is_some(),
    },
    Need { what: "the ip command", packages: &["iproute2"], present: || works("ip", "-V") },
];

/// What the checks and the tests need besides.
const NEEDS: [Need; 3] = [
    Need {
        what: "clippy for that compiler",
        packages: &["rust-web-clippy"],
        present: || Toolchain::find().is_some_and(|toolchain| !toolchain.is_packaged() || toolchain.has_clippy()),
    },
    Need { what: "strace", packages: &["strace"], present: || works("strace", "-V") },
    // Tests run the unit under a systemd of their own.
    Need {
        what: "systemd",
        packages: &["systemd"],
        present: || works("systemd-analyze", "--version") && Path::new("/lib/systemd/systemd").exists(),
    },
];

/// Tools for virtual machines.
const VM_NEEDS: [Need; 5] = [
    Need {
        what: "QEMU for x86-64",
        packages: &["qemu-system-x86"],
        present: || works("qemu-system-x86_64", "--version"),
    },
    Need { what: "BusyBox", packages: &["busybox-static"], present: || works("busybox", "true") },
    Need { what: "modprobe and depmod", packages: &["kmod"], present: || works("depmod", "--version") },
    Need { what: "cpio", packages: &["cpio"], present: || works("cpio", "--version") },
    Need { what: "xz", packages: &["xz-utils"], present: || works("xz", "--version") },
];

/// Programs of the documents, and the interpreter of fail2ban.
const PROGRAMS: [Need; 2] = [
    Need { what: "openssl", packages: &["openssl"], present: || works("openssl", "version") },
    Need { what: "Python", packages: &["python3"], present: || works("python3", "--version") },
];

/// Other limiters: tests need them, and `cargo xtask bench` compares with them.
const LIMITERS: [Need; 2] = [
    Need { what: "nftables", packages: &["nftables"], present: || works("nft", "--version") },
    Need { what: "iptables", packages: &["iptables"], present: || works("iptables", "--version") },
];

/// Tools for packages.
const PACKAGE_NEEDS: [Need; 4] = [
    Need { what: "Python with venv", packages: &["python3-venv"], present: || works("python3", "-cimport ensurepip") },
    Need { what: "dpkg-deb", packages: &["dpkg"], present: || works("dpkg-deb", "--version") },
    Need { what: "rpmbuild", packages: &["rpm"], present: || works("rpmbuild", "--version") },
    Need { what: "readelf", packages: &["binutils"], present: || works("readelf", "--version") },
];

/// Finds or installs the tools for packages.
pub(crate) fn packages() -> Result<()> {
    provide(&PACKAGE_NEEDS, || "Install dpkg, rpmbuild, binutils and Python with venv and pip by hand".to_owned())
}

/// Finds or installs what makes a clean root.
pub(crate) fn clean_root() -> Result<()> {
    const NEEDS: [Need; 1] =
        [Need { what: "debootstrap", packages: &["debootstrap"], present: || works("debootstrap", "--version") }];
    provide(&NEEDS, || "Install debootstrap by hand".to_owned())
}

/// Finds or installs other limiters.
pub(crate) fn limiters() -> Result<()> {
    provide(&LIMITERS, || "Install nftables and iptables by hand".to_owned())
}

/// Finds or installs the browser of the tests.
pub(crate) fn browser() -> Result<()> {
    const NEEDS: [Need; 1] = [Need {
        what: "Chromium without a screen (64 MB, and its libraries)",
        packages: &["chromium-headless-shell"],
        present: || works("chromium-headless-shell", "--version"),
    }];
    provide(&NEEDS, || "Install chromium-headless-shell by hand".to_owned())
}

/// Finds or installs the tools for virtual machines.
pub(crate) fn virtual_machines() -> Result<()> {
    provide(&VM_NEEDS, virtual_machines_by_hand)
}

/// Installs the missing tools of `needs`. If that is impossible, the error contains the advice of `by_hand`.
fn provide(needs: &[Need], by_hand: fn() -> String) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !(need.present)()).collect();
    if !missing.is_empty() {
        install(&missing, by_hand)?;
        for need in missing {
            ensure!((need.present)(), "{} is still missing after installing {}", need.what, need.packages.join(" "));
        }
    }
    Ok(())
}

/// Finds or installs the tools for building and testing.
pub(crate) fn for_tests() -> Result<()> {
    run()?;
    provide(&PROGRAMS, || "Install OpenSSL and Python by hand".to_owned())?;
    limiters()
}

/// Finds or installs the tools for building and checking.
pub(crate) fn run() -> Result<()> {
    for_builds()?;
    provide(&NEEDS, by_hand)
}

/// Finds or installs the tools for building.
pub(crate) fn for_builds() -> Result<()> {
    provide(&BUILD_NEEDS, by_hand)?;
    if !linker_works() {
        install_linker()?;
    }
    let toolchain = Toolchain::find().with_context(by_hand)?;
    println!("setup: the kernel side is built by {toolchain}, bpf-linker {BPF_LINKER}");
    Ok(())
}

fn install(missing: &[&Need], by_hand: fn() -> String) -> Result<()> {
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    let what: Vec<&str> = missing.iter().map(|need| need.what).collect();
    println!("setup: missing: {}", what.join(", "));
    if !works("apt-get", "--version") {
        bail!("this system has no apt-get, so nothing was installed\n{}", by_hand());
    }
    run::require_root("setup")?;
    let mut update = Command::new("apt-get");
    run::run(update.args(["update", "--quiet"])).with_context(|| offline(&packages, by_hand))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(&packages);
    run::run(install.env("DEBIAN_FRONTEND", "noninteractive")).with_context(|| offline(&packages, by_hand))
}

fn offline(packages: &[&str], by_hand: fn() -> String) -> String {
    format!("cannot install {}: is the network up, and does this release have them?\n{}", packages.join(" "), by_hand())
}

fn install_linker() -> Result<()> {
    println!("setup: building bpf-linker {BPF_LINKER} with LLVM {LLVM_MAJOR} (about a minute, once per machine)");
    let prefix = llvm_prefix().with_context(|| format!("no LLVM {LLVM_MAJOR} with headers\n{}", by_hand()))?;
    let feature = format!("llvm-{LLVM_MAJOR}");
    let mut cargo = run::cargo();
    cargo.args(["install", "bpf-linker", "--locked", "--quiet", "--version", BPF_LINKER, "--no-default-features"]);
    cargo.args(["--features", &feature, "--root"]).arg(linker_root()).env("LLVM_PREFIX", prefix);
    run::run(&mut cargo).context("cannot install the crate bpf-linker: is the network up?")
}

/// Lists the tools to install on systems without apt-get.
fn by_hand() -> String {
    format!(
        "Install one of these by hand, then run `cargo xtask setup` again:\n  \
         Debian: apt-get install rustc-web libstd-rust-web-dev-bpf rust-web-clippy llvm-{LLVM_MAJOR}-dev libzstd-dev zlib1g-dev iproute2 strace systemd\n  \
         others: rustup toolchain install {NIGHTLY} --profile minimal --component rust-src --component clippy,\n          \
         LLVM {LLVM_MAJOR} with its headers (llvm-config {LLVM_MAJOR} in PATH), iproute2, strace and systemd 252 or newer"
    )
}

/// Lists the packages for guests. Only the package manager of Debian can fetch their kernels.
fn virtual_machines_by_hand() -> String {
    let packages: Vec<&str> = VM_NEEDS.iter().flat_map(|need| need.packages).copied().collect();
    format!("Guests run on Debian with these packages: {}", packages.join(" "))
}

fn linker_works() -> bool {
    linker().to_str().is_some_and(|linker| works(linker, "--version"))
}

fn works(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}
