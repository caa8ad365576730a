//! The image for containers, as an archive in the layout of the Open Container Initiative (OCI).
//!
//! It contains the program with its licences, and of Debian's C library only what the program loads.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    libc::Libc,
    source::Source,
    tarball::{self, digest},
    tree::{BILL, DOCUMENTS, PROGRAM, Tree},
};
use crate::{
    run::{self, output},
    target,
};

/// The name of the image. Without a registry, engines would add different ones.
const NAME: &str = "localhost/ratelimit";
/// The folder of libraries, in packages and in the image.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
/// The program that loads libraries.
const LOADER: &str = "ld-linux-x86-64.so.2";
/// Licences of the C library, in its package and in that of Debian's common files.
const LICENCES: [&str; 2] = ["usr/share/doc/libc6/copyright", "usr/share/common-licenses/LGPL-2.1"];
/// Folders for mounts.
const MOUNT_POINTS: [&str; 6] = ["etc/ratelimit", "proc", "run/ratelimit", "sys", "tmp", "var/lib/ratelimit"];

/// Builds the image below `folder`.
pub(super) fn build(source: &Source, tree: &Tree, folder: &Path, package: &Path) -> Result<()> {
    let (root, layout) = (folder.join("image"), folder.join("layout"));
    target::renew(&root)?;
    fill(tree, &Libc::download(folder)?, &root)?;
    let blobs = layout.join("blobs/sha256");
    target::renew(&layout)?;
    fs::create_dir_all(&blobs).context("cannot make a folder")?;
    let layer = folder.join("layer.tar");
    tarball::pack(source, &root, None, &layer)?;
    let unpacked = digest(&layer)?;
    tarball::compress(&layer)?;
    let layer = Blob::of(&folder.join("layer.tar.gz"), "application/vnd.oci.image.layer.v1.tar+gzip", &blobs)?;
    let created = source.time("%Y-%m-%dT%H:%M:%SZ")?;
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {
            "Env": ["PATH=/usr/sbin"],
            "Cmd": ["ratelimit", "run", "--config", "/etc/ratelimit/ratelimit.toml"],
            "Labels": {
                "org.opencontainers.image.title": "ratelimit",
                "org.opencontainers.image.version": source.version,
                "org.opencontainers.image.revision": source.commit,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{unpacked}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    });
    // All engines give the image this name. Docker reads this file, and others read the index.
    let name = format!("{NAME}:{}", source.version);
    let config = Blob::json(&config, "application/vnd.oci.image.config.v1+json", folder, &blobs)?;
    let of_docker = json!([{ "Config": config.place(), "RepoTags": [name], "Layers": [layer.place()] }]);
    write(&layout.join("manifest.json"), &of_docker.to_string())?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": kind, "config": config.described(), "layers": [layer.described()] });
    let mut manifest = Blob::json(&manifest, kind, folder, &blobs)?.described();
    manifest["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": name, "io.containerd.image.name": name });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    write(&layout.join("index.json"), &index.to_string())?;
    write(&layout.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    run::run(Command::new("chmod").args(["--recursive", "u=rwX,go=rX"]).arg(&layout))?;
    tarball::pack(source, &layout, None, package)
}

/// Puts the files of the image into `root`.
fn fill(tree: &Tree, libc: &Libc, root: &Path) -> Result<()> {
    copy(&tree.root.join(PROGRAM), &root.join(PROGRAM))?;
    for entry in fs::read_dir(tree.root.join(DOCUMENTS)).context("no licences")? {
        let entry = entry?;
        copy(&entry.path(), &root.join(DOCUMENTS).join(entry.file_name()))?;
    }
    let bill = fs::read(tree.root.join(BILL)).context("no bill of materials")?;
    let mut bill: Value = serde_json::from_slice(&bill).context("the bill of materials is no JSON")?;
    bill["components"].as_array_mut().context("the bill of materials has no components")?.push(libc.component());
    write(&root.join(BILL), &(serde_json::to_string_pretty(&bill)? + "\n"))?;
    for library in libraries(&tree.root.join(PROGRAM))? {
        let found =
            [LIBRARIES.to_owned(), format!("usr/{LIBRARIES}")].map(|folder| libc.folder.join(folder).join(&library));
        let found = found.iter().find(|path| path.is_file());
        let found = found.with_context(|| format!("the package libc6 has no {library}"))?;
        let folder = if library == LOADER { "lib64" } else { LIBRARIES };
        copy(found, &root.join(folder).join(&library))?;
    }
    for licence in LICENCES {
        copy(&libc.folder.join(licence), &root.join(licence))?;
    }
    for folder in MOUNT_POINTS {
        fs::create_dir_all(root.join(folder)).context("cannot make a folder")?;
    }
    write(&root.join("etc/passwd"), "root:x:0:0:root:/:/sbin/nologin\n")?;
    write(&root.join("etc/group"), "root:x:0:\n")?;
    run::run(Command::new("chmod").args(["--recursive", "u=rwX,go=rX"]).arg(root))?;
    run::run(Command::new("chmod").arg("1777").arg(root.join("tmp")))
}

/// Returns the libraries that a program loads.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let dynamic = output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(program))?;
    let names = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let mut names: Vec<_> =
        names.filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').to_owned())).collect();
    names.push(LOADER.to_owned());
    names.sort();
    names.dedup();
    Ok(names)
}

/// A file of the image, under its hash.
struct Blob {
    kind: &'static str,
    digest: String,
    size: u64,
}

impl Blob {
    /// Copies a file to its hash.
    fn of(file: &Path, kind: &'static str, blobs: &Path) -> Result<Self> {
        let digest = digest(file)?;
        copy(file, &blobs.join(&digest))?;
        Ok(Self { kind, digest, size: fs::metadata(file)?.len() })
    }

    fn json(value: &Value, kind: &'static str, folder: &Path, blobs: &Path) -> Result<Self> {
        let file = folder.join("blob.json");
        write(&file, &value.to_string())?;
        Self::of(&file, kind, blobs)
    }

    fn place(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn described(&self) -> Value {
        json!({ "mediaType": self.kind, "digest": format!("sha256:{}", self.digest), "size": self.size })
    }
}

fn copy(from: &Path, to: &PathBuf) -> Result<()> {
    let folder = to.parent().context("a file has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display())).map(drop)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
