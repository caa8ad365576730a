//! Initial file systems of guests: programs with their libraries, modules of the kernel, and a job.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::kernel::Kernel;
use crate::run::output;

/// The first process of a guest.
const INIT: &str = include_str!("init.sh");

/// The only user that has a name in guests.
const USERS: &str = "root:x:0:0:root:/:/bin/sh\n";

/// Mount points of `/init`.
const MOUNT_POINTS: [&str; 5] = ["proc", "sys", "dev", "tmp", "run"];

/// Programs of this machine that tests and `/init` run.
const PROGRAMS: [&str; 7] = [
    "/usr/sbin/ip",
    "/usr/bin/setpriv",
    "/usr/bin/setarch",
    "/usr/bin/env",
    "/usr/bin/chrt",
    "/usr/bin/flock",
    "/usr/bin/strace",
];

/// Programs of BusyBox that tests and `/init` run. Others, such as its `ip`, would hide those of this machine.
const APPLETS: [&str; 15] = [
    "sh", "mount", "insmod", "stty", "sleep", "true", "poweroff", "cat", "chgrp", "chmod", "chown", "ln", "mkdir",
    "rm", "touch",
];

/// Modules that tests use.
const MODULES: [&str; 21] = [
    "veth",
    "dummy",
    "tun",
    "virtio_pci",
    "virtio_net",
    "vxlan",
    "wireguard",
    "ipip",
    "sit",
    "ip_gre",
    "ip6_tunnel",
    "ip6_gre",
    "ip_vti",
    "ip6_vti",
    "xfrm_interface",
    "nlmon",
    "8021q",
    "bridge",
    "bonding",
    "macvlan",
    // Without it, strace does not read messages of netlink.
    "netlink_diag",
];

/// The archive that all guests share: everything except modules and the job.
#[derive(Debug)]
pub(super) struct Base {
    folder: PathBuf,
    archive: PathBuf,
}

impl Base {
    /// Packs the product and the test programs, each with its path in the guest, and `data`, the files for tests.
    pub(super) fn build(folder: &Path, programs: &[(PathBuf, PathBuf)], data: &Path) -> Result<Self> {
        let root = folder.join("base");
        let _ = fs::remove_dir_all(&root);
        for mount_point in MOUNT_POINTS {
            fs::create_dir_all(root.join(mount_point)).context("cannot make the guest's folders")?;
        }
        for (program, place) in programs {
            let copy = add(&root, program, place)?;
            // Debug information and symbols are most of a debug build, and guests unpack everything into their memory.
            output(Command::new("strip").arg("--strip-all").arg(copy))?;
        }
        for program in PROGRAMS.map(Path::new) {
            add(&root, program, program)?;
        }
        let busybox = which("busybox")?;
        add(&root, &busybox, Path::new("/bin/busybox"))?;
        for applet in APPLETS {
            symlink("busybox", root.join("bin").join(applet)).context("cannot link an applet")?;
        }
        if data.is_dir() {
            output(Command::new("cp").arg("--recursive").arg(data).arg(root.join("tests")))?;
        }
        let etc = root.join("etc");
        fs::create_dir_all(&etc).and_then(|()| fs::write(etc.join("passwd"), USERS)).context("cannot name root")?;
        script(&root.join("init"), INIT)?;
        let archive = folder.join("base.cpio");
        pack(&root, &archive)?;
        Ok(Self { folder: folder.to_owned(), archive })
    }

    /// Builds the file system of a guest with this kernel. Kernels unpack several archives in one file.
    pub(super) fn with(&self, kernel: &Kernel, job: &str) -> Result<PathBuf> {
        let root = self.folder.join(kernel.name.text());
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("modules")).context("cannot make the folder of the modules")?;
        for (number, file) in kernel.modules(&MODULES)?.iter().enumerate() {
            let name = file.file_name().and_then(|name| name.to_str()).context("a module has no name")?;
            let place = root.join(format!("modules/{number:02}-{}", name.trim_end_matches(".xz")));
            let unpacked = fs::File::create(&place).context("cannot write a module")?;
            // Packages before 6.12 do not compress modules.
            let program = if name.ends_with(".xz") { "xzcat" } else { "cat" };
            let status = Command::new(program).arg(file).stdout(unpacked).status();
            ensure!(status.with_context(|| format!("cannot run {program}"))?.success(), "cannot unpack {name}");
        }
        script(&root.join("job"), job)?;
        let own = self.folder.join(format!("{}.own.cpio", kernel.name.text()));
        pack(&root, &own)?;
        let whole = self.folder.join(format!("{}.cpio", kernel.name.text()));
        let parts = [&self.archive, &own].map(fs::read).into_iter().collect::<Result<Vec<_>, _>>();
        fs::write(&whole, parts.context("cannot read an archive")?.concat()).context("cannot write the archive")?;
        Ok(whole)
    }
}

/// Copies a program and its libraries to their paths in the guest.
fn add(root: &Path, program: &Path, place: &Path) -> Result<PathBuf> {
    let copy = copy(root, program, place)?;
    // A program without libraries makes ldd fail.
    let ldd = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&ldd.stdout).into_owned();
    ensure!(!text.contains("not found"), "{} lacks a library:\n{text}", program.display());
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        self::copy(root, Path::new(library), Path::new(library))?;
    }
    Ok(copy)
}

fn copy(root: &Path, file: &Path, place: &Path) -> Result<PathBuf> {
    let copy = root.join(place.strip_prefix("/").context("a path in the guest must be absolute")?);
    fs::create_dir_all(copy.parent().context("no file")?).context("cannot make a folder of the guest")?;
    fs::copy(file, &copy).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(copy)
}

fn script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).context("cannot make a script executable")
}

fn pack(root: &Path, archive: &Path) -> Result<()> {
    let file = fs::File::create(archive).with_context(|| format!("cannot write {}", archive.display()))?;
    let mut cpio = Command::new("sh");
    cpio.current_dir(root).args(["-c", "find . | cpio --quiet --create --format=newc --owner=0:0"]);
    let status = cpio.stdout(Stdio::from(file)).status().context("cannot run cpio")?;
    ensure!(status.success(), "cpio failed ({status})");
    Ok(())
}

fn which(program: &str) -> Result<PathBuf> {
    let path = output(Command::new("sh").args(["-c", "command -v \"$0\"", program]))?;
    Ok(PathBuf::from(path.trim()))
}
