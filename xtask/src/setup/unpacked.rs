//! Packages of Debian with servers, unpacked below `target/`.
//!
//! They are not installed, since installing them would start servers that listen on this machine.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::works;
use crate::{run, target};

/// A package, and what of it is needed.
pub(crate) struct Unpacked {
    /// Also the name of its folder.
    package: &'static str,
    /// Paths below the folder. Programs are looked for there and then in PATH.
    programs: &'static [&'static str],
    /// The argument with which all programs end successfully.
    version: &'static str,
}

/// Prometheus for the tests (19 MB).
pub(crate) const PROMETHEUS: Unpacked =
    Unpacked { package: "prometheus", programs: &["usr/bin/prometheus", "usr/bin/promtool"], version: "--version" };
/// The web server of the benchmark.
pub(crate) const NGINX: Unpacked = Unpacked { package: "nginx", programs: &["usr/sbin/nginx"], version: "-v" };

impl Unpacked {
    /// Finds or downloads the programs. To get a newer package, delete the folder.
    ///
    /// # Errors
    ///
    /// Fails if they are missing and cannot be downloaded.
    pub(crate) fn provide(&self) -> Result<()> {
        let folder = target::folder(self.package)?;
        let is_there = |path: &&str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            folder.join(path).is_file() || works(name, self.version)
        };
        if self.programs.iter().all(is_there) {
            return Ok(());
        }
        println!("setup: downloading {}", self.package);
        download(self.package, &folder).with_context(|| {
            let package = self.package;
            format!("cannot download the Debian package {package}: on other systems, install its programs in PATH")
        })
    }
}

fn download(package: &str, folder: &Path) -> Result<()> {
    // As root, apt otherwise works as a user that cannot write to this folder.
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(folder).args(["--quiet", "-o", "APT::Sandbox::User=root"]);
        apt
    };
    run::run(apt().arg("update"))?;
    run::run(apt().args(["download", package]))?;
    for entry in fs::read_dir(folder).context("cannot list the download")?.flatten() {
        let archive = entry.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            run::run(Command::new("dpkg").arg("-x").arg(&archive).arg(folder))?;
            fs::remove_file(&archive).context("cannot remove the package's archive")?;
        }
    }
    Ok(())
}
