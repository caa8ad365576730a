//! Prometheus for the tests: Debian's package, downloaded and unpacked below `target/`. It is not installed, which would start a server that listens on this machine.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::{run, setup, vm};

/// Its programs, which tests look for beside the product's and then in PATH.
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// Finds it, or downloads it (19 MB). To look for a newer package, delete the folder.
pub(crate) fn provide() -> Result<()> {
    let folder = vm::folder("prometheus")?;
    let there = |program: &str| folder.join("usr/bin").join(program).is_file() || setup::works(program, "--version");
    if PROGRAMS.iter().all(|program| there(program)) {
        return Ok(());
    }
    println!("setup: downloading Prometheus for the tests");
    download(&folder).context(
        "cannot download Debian's package prometheus: on other systems, install prometheus and promtool in PATH",
    )
}

fn download(folder: &Path) -> Result<()> {
    // As root, apt would read the archive as somebody who cannot write here.
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
