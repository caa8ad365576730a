//! Checks of the archives: they are opened as their users open them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{source::Source, tarball::digest};
use crate::{
    run::{self, output},
    target,
};

/// Checks that the tarball has the files of the packages, and that all references in the image lead to files.
pub(super) fn check(source: &Source, built: &[PathBuf]) -> Result<()> {
    let dist = target::folder("dist")?;
    let opened = dist.join("opened");
    target::renew(&opened)?;
    unpack(&built[0], &opened)?;
    let files = opened.join(format!("ratelimit-{}", source.version));
    run::run(Command::new("diff").arg("--recursive").arg(dist.join("tree")).arg(files))?;
    target::renew(&opened)?;
    unpack(&built[3], &opened)?;
    image(source, &opened)?;
    target::renew(&opened)
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    run::run(Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(folder))
}

/// Follows both ways into an unpacked image: that of Docker, and that of the Open Container Initiative.
fn image(source: &Source, layout: &Path) -> Result<()> {
    let read = |path: &str| -> Result<Value> {
        let text = fs::read(layout.join(path)).with_context(|| format!("the image has no {path}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{path} is no JSON"))
    };
    let text = |value: &Value| value.as_str().map(str::to_owned).context("the image has no text where one must be");
    let blob = |value: &Value| -> Result<String> {
        let digest = text(&value["digest"])?;
        Ok(format!("blobs/{}", digest.replace(':', "/")))
    };
    let of_docker = &read("manifest.json")?[0];
    let index = &read("index.json")?["manifests"][0];
    let name = format!("localhost/ratelimit:{}", source.version);
    ensure!(of_docker["RepoTags"][0] == name.as_str(), "Docker gives the image another name than {name}");
    let annotation = &index["annotations"]["org.opencontainers.image.ref.name"];
    ensure!(*annotation == name.as_str(), "the index gives the image another name than {name}");
    let manifest = blob(index)?;
    let (config, layer) = (blob(&read(&manifest)?["config"])?, blob(&read(&manifest)?["layers"][0])?);
    let same = text(&of_docker["Config"])? == config && text(&of_docker["Layers"][0])? == layer;
    ensure!(same, "Docker loads another image than other engines");
    for path in [&manifest, &config, &layer] {
        ensure!(path.ends_with(&digest(&layout.join(path))?), "{path} has another hash");
    }
    let files = output(Command::new("tar").arg("--list").arg("--gzip").arg("--file").arg(layout.join(&layer)))?;
    ensure!(files.lines().any(|file| file == "./usr/sbin/ratelimit"), "the image has no program");
    Ok(())
}
