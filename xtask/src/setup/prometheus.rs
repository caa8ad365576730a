//! Prometheus for the tests: the package of Debian, unpacked below `target/`.
//!
//! The package is not installed, since installing it would start a server that listens on this machine.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::works;
use crate::{run, target};

/// Its programs. Tests look for them in that folder and then in PATH.
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// Finds or downloads Prometheus (19 MB). To get a newer package, delete the folder.
pub(crate) fn provide() -> Result<()> {
    let folder = target::folder("prometheus")?;
    let is_there = |program: &str| folder.join("usr/bin").join(program).is_file() || works(program, "--version");
    if PROGRAMS.iter().all(|program| is_there(program)) {
        return Ok(());
    }
    println!("setup: downloading Prometheus for the tests");
    download(&folder).context(
        "cannot download the Debian package prometheus: on other systems, install prometheus and promtool in PATH",
    )
}

fn download(folder: &Path) -> Result<()> {
    // As root, apt otherwise works as a user that cannot write to this folder.
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(folder).args(["--quiet", "-o", "APT::Sandbox::User=root"]);
        apt
    };
    run::run(apt().arg("update"))?;
    run::run(apt().args(["download", "prometheus"]))?;
    for entry in fs::read_dir(folder).context("cannot list the download")?.flatten() {
        let archive = entry.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            run::run(Command::new("dpkg").arg("-x").arg(&archive).arg(folder))?;
            fs::remove_file(&archive).context("cannot remove the package's archive")?;
        }
    }
    Ok(())
}
