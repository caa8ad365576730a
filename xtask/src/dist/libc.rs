//! The C library of the image: the newest one of this machine's Debian, with its security fixes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::tarball::digest;
use crate::{
    run::{self, output},
    target,
};

/// The package of the library, and the one of its licence.
const PACKAGES: [&str; 2] = ["libc6", "base-files"];

/// A package of Debian, unpacked.
pub(super) struct Libc {
    pub(super) folder: PathBuf,
    version: String,
    sha256: String,
}

impl Libc {
    /// Downloads the library below `folder`.
    pub(super) fn download(folder: &Path) -> Result<Self> {
        let (packages, unpacked) = (folder.join("libc-packages"), folder.join("libc"));
        target::renew(&packages)?;
        target::renew(&unpacked)?;
        let apt = || {
            let mut apt = Command::new("apt-get");
            // As root, apt otherwise works as a user that cannot write to this folder.
            apt.current_dir(&packages).args(["--quiet", "--quiet", "-o", "APT::Sandbox::User=root"]);
            apt
        };
        run::run(apt().arg("update"))?;
        run::run(apt().arg("download").args(PACKAGES))?;
        let mut libc = Self { folder: unpacked, version: String::new(), sha256: String::new() };
        for entry in fs::read_dir(&packages).context("cannot list the download")? {
            let package = entry?.path();
            run::run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&libc.folder))?;
            let field = |name: &str| output(Command::new("dpkg-deb").arg("--field").arg(&package).arg(name));
            if field("Package")?.trim() == PACKAGES[0] {
                field("Version")?.trim().clone_into(&mut libc.version);
                libc.sha256 = digest(&package)?;
            }
        }
        println!("dist: the image has libc6 {}", libc.version);
        Ok(libc)
    }

    /// Returns the library as a component of a bill of materials, as scanners of containers expect it.
    pub(super) fn component(&self) -> Value {
        let purl = format!("pkg:deb/debian/libc6@{}?arch=amd64&upstream=glibc", self.version);
        json!({
            "type": "library",
            "bom-ref": purl,
            "purl": purl,
            "name": PACKAGES[0],
            "version": self.version,
            "licenses": [{ "expression": "LGPL-2.1-or-later" }],
            "hashes": [{ "alg": "SHA-256", "content": self.sha256 }],
        })
    }
}
