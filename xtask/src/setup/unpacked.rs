//! Packages of Debian with servers, unpacked below `target/`.
//!
//! They are not installed, since installing them would start servers that listen on this machine.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::works;
use crate::{run, target};

/// Packages, and what of them is needed.
pub(crate) struct Unpacked {
    /// The packages. The first one is also the name of their folder.
    packages: &'static [&'static str],
    /// Paths below the folder. Programs are looked for there and then in PATH.
    programs: &'static [&'static str],
    /// The argument with which all programs end successfully.
    version: &'static str,
}

/// Prometheus for the tests (19 MB).
pub(crate) const PROMETHEUS: Unpacked =
    Unpacked { packages: &["prometheus"], programs: &["usr/bin/prometheus", "usr/bin/promtool"], version: "--version" };
/// The web server of the tests and the benchmark.
pub(crate) const NGINX: Unpacked = Unpacked { packages: &["nginx"], programs: &["usr/sbin/nginx"], version: "-v" };
/// The load generator of the benchmark for HTTP, with its library. It has no argument with which it ends successfully, so
/// one in PATH is not found.
pub(crate) const WRK: Unpacked =
    Unpacked { packages: &["wrk", "libluajit2-5.1-2"], programs: &["usr/bin/wrk"], version: "--version" };
/// The engine of a fleet for the tests (2 MB), with its libraries.
pub(crate) const REDIS: Unpacked = Unpacked {
    packages: &["redis", "redis-server", "redis-tools", "libjemalloc2", "liblzf1"],
    programs: &["usr/bin/redis-server"],
    version: "--version",
};

/// What bans clients by their lines in logs. It runs in Python.
pub(crate) const FAIL2BAN: Unpacked = Unpacked {
    packages: &["fail2ban"],
    programs: &["usr/bin/fail2ban-server", "usr/bin/fail2ban-client"],
    version: "--version",
};

/// The tool for the kernel's sets of addresses, with its library.
pub(crate) const IPSET: Unpacked =
    Unpacked { packages: &["ipset", "libipset13"], programs: &["usr/sbin/ipset"], version: "--version" };

/// A server and a client of DHCP, in one program (2 MB).
pub(crate) const BUSYBOX: Unpacked =
    Unpacked { packages: &["busybox-static"], programs: &["bin/busybox"], version: "--help" };

/// Other XDP programs and their loader, with its libraries (1 MB). The filter has no argument with which it always ends
/// successfully, so one in PATH is not found.
pub(crate) const XDP_TOOLS: Unpacked = Unpacked {
    packages: &["xdp-tools", "libxdp1", "libbpf1"],
    programs: &["usr/sbin/xdp-filter", "usr/sbin/xdp-loader"],
    version: "status",
};

/// What has decisions about addresses for its bouncers (32 MB).
pub(crate) const CROWDSEC: Unpacked =
    Unpacked { packages: &["crowdsec"], programs: &["usr/bin/crowdsec", "usr/bin/cscli"], version: "-version" };

/// Finds or downloads all servers of the tests.
///
/// # Errors
///
/// Fails if one is missing and cannot be downloaded.
pub(crate) fn for_tests() -> Result<()> {
    [PROMETHEUS, REDIS, NGINX, FAIL2BAN, IPSET, BUSYBOX, XDP_TOOLS].iter().try_for_each(Unpacked::provide)
}

impl Unpacked {
    /// Finds or downloads the programs. To get a newer package, delete the folder.
    ///
    /// # Errors
    ///
    /// Fails if they are missing and cannot be downloaded.
    pub(crate) fn provide(&self) -> Result<()> {
        let Some(name) = self.packages.first() else { return Ok(()) };
        let folder = target::folder(name)?;
        let is_there = |path: &&str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            folder.join(path).is_file() || works(name, self.version)
        };
        if self.programs.iter().all(is_there) {
            return Ok(());
        }
        println!("setup: downloading {name}");
        download(self.packages, &folder).with_context(|| {
            format!("cannot download the Debian package {name}: on other systems, install its programs in PATH")
        })
    }
}

fn download(packages: &[&str], folder: &Path) -> Result<()> {
    // As root, apt otherwise works as a user that cannot write to this folder.
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(folder).args(["--quiet", "-o", "APT::Sandbox::User=root"]);
        apt
    };
    run::run(apt().arg("update"))?;
    run::run(apt().arg("download").args(packages))?;
    for entry in fs::read_dir(folder).context("cannot list the download")?.flatten() {
        let archive = entry.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            run::run(Command::new("dpkg").arg("-x").arg(&archive).arg(folder))?;
            fs::remove_file(&archive).context("cannot remove the package's archive")?;
        }
    }
    Ok(())
}
