//! The Debian package.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{
    source::Source,
    tree::{Tree, is_configuration},
};
use crate::{run, target};

/// Builds the package below `folder`.
pub(super) fn build(source: &Source, tree: &Tree, folder: &Path, package: &Path) -> Result<()> {
    let root = folder.join("deb");
    target::renew(&root)?;
    run::run(Command::new("cp").arg("--archive").arg(tree.root.join(".")).arg(&root))?;
    let control = root.join("DEBIAN");
    fs::create_dir(&control).context("cannot make a folder")?;
    let write = |name: &str, text: String, mode: u32| {
        let path = control.join(name);
        fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .context(name.to_owned())
    };
    write("control", about(source, size(tree)?), 0o644)?;
    let conffiles =
        tree.files()?.iter().filter(|file| is_configuration(file)).map(|file| format!("/{file}\n")).collect();
    write("conffiles", conffiles, 0o644)?;
    for (name, text) in scripts(source)? {
        write(name, text, 0o755)?;
    }
    fs::set_permissions(&control, fs::Permissions::from_mode(0o755)).context("cannot set a mode")?;
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(root).arg(package);
    run::run(build.env("SOURCE_DATE_EPOCH", &source.epoch))
}

/// Returns the size of the installed files in kibibytes.
fn size(tree: &Tree) -> Result<u64> {
    let sizes = tree
        .files()?
        .iter()
        .map(|file| Ok(fs::metadata(tree.root.join(file))?.len().div_ceil(1_024)))
        .sum::<Result<u64>>();
    sizes.context("cannot read the size of a file")
}

fn about(source: &Source, size: u64) -> String {
    format!(
        "Package: ratelimit
Version: {}
Architecture: amd64
Maintainer: The ratelimit project
Section: net
Priority: optional
Installed-Size: {size}
Depends: libc6 (>= 2.17), passwd
Recommends: systemd (>= 252)
Description: limits packets and bytes of each source, in the kernel
 ratelimit limits how many packets and bytes each source may send to this host.
 Its program runs at the XDP hook, before the network stack sees a packet. Limits
 change while traffic flows. The installation limits nothing.
 .
 Built from commit {}.
",
        source.version, source.commit
    )
}

/// Returns the scripts of the package with their names.
fn scripts(source: &Source) -> Result<[(&'static str, String); 3]> {
    let part = |name: &str| source.script(name);
    let (instances, installed, upgraded) = (part("instances")?, part("installed")?, part("upgraded")?);
    let (removing, removed, purged) = (part("removing")?, part("removed")?, part("purged")?);
    let begin = "#!/bin/sh\nset -e\n";
    Ok([
        (
            "postinst",
            format!(
                "{begin}{instances}if [ \"$1\" = configure ]; then\n{installed}if [ -n \"$2\" ]; then\n{upgraded}fi\nfi\n"
            ),
        ),
        ("prerm", format!("{begin}{instances}if [ \"$1\" = remove ]; then\n{removing}fi\n")),
        (
            "postrm",
            format!("{begin}if [ \"$1\" = remove ]; then\n{removed}fi\nif [ \"$1\" = purge ]; then\n{purged}fi\n"),
        ),
    ])
}
